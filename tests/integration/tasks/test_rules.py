"""The rules of a namespace, applied to answers: what comes first, what never comes, and which words mean the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from chorale_client.answer import Answer
from sqlalchemy import Engine

from models.rules import read_rules
from records.database import open_database, upgrade
from records.rules.store import RuleStore, copy_rules
from tests.integration.tasks.answers import ids
from tests.support.faults.observers import audited
from tests.support.pipelines.one_process import OneProcess
from tests.support.waiting import until

OPTIONS: dict[str, Any] = {"timeout_s": 20, "include": ["ids", "metadata", "snippets", "explanation"]}


@pytest.fixture(scope="module")
def engine(here: OneProcess) -> Iterator[Engine]:
    url = here.resources.settings.audit_database_url
    upgrade(url)
    engine = open_database(url)
    yield engine
    engine.dispose()


def give(here: OneProcess, engine: Engine, namespace: str, rules: dict[str, Any]) -> None:
    """Writes rules and copies them to Redis."""
    store = RuleStore(engine)
    store.change(namespace, lambda _: read_rules(rules), by="a test")
    copy_rules(here.redis, store, namespace)


def changed(here: OneProcess, question: str, before: Answer, **options: Any) -> Answer:
    """The first answer with other documents, or in another order, than `before`."""

    def other() -> Answer | None:
        now = here.ask(question, **options)
        return now if ids(now) != ids(before) else None

    answer = until(other)
    assert answer is not None
    return answer


def test_pinned_documents_come_first_and_blocked_ones_never(here: OneProcess, engine: Engine) -> None:
    here.index(namespace="ruled")
    options = {**OPTIONS, "namespace": "ruled", "top_k": 3}
    question = "how is bread baked?"
    before = here.ask(question, **options)
    assert (before.hits[0].document_id, before.questions[0].rules) == ("bread", ())

    pin = {"bakers": {"contains": ["baking bread"], "documents": ["deposit", "nobody", "error"]}}
    give(here, engine, "ruled", {"pin": pin, "block": {"old": {"documents": ["notice", "repairs"]}}})
    answer = changed(here, question, before, **options)
    assert (answer.status, ids(answer)) == ("complete", ["deposit", "error", "bread"])
    assert [hit.pinned for hit in answer.hits] == ["bakers", "bakers", None]
    assert [hit.rank for hit in answer.hits] == [1, 2, 3]
    assert all(hit.snippet for hit in answer.hits)
    page = answer.questions[0]
    assert (page.ordered_by, page.rules, page.removed) == ("pinned", ("bakers", "old"), {"blocked": 2})
    assert not answer.cached

    # The next page goes on where this one ends; a whole page of blocked documents is filled from the others.
    assert ids(here.ask(question, offset=1, **options)) == ["error", "bread"]
    assert "notice" not in ids(here.ask("when must a tenant give notice?", **{**options, "top_k": 5}))

    # The same rules as before bring back the same answers.
    give(here, engine, "ruled", {})
    assert ids(changed(here, question, answer, **options)) == ids(before)


def test_a_pin_breaks_no_filter_and_no_exclusion_but_stands_above_thresholds_and_groups(
    here: OneProcess, engine: Engine
) -> None:
    here.index({"ours": ("Bread", "Our bread is baked from rye.")}, namespace="walls", customer="acme")
    theirs = {"theirs": ("Cake", "Their cake is sweet."), "their bread": ("Bread", "Their bread is white.")}
    here.index(theirs, namespace="walls", customer="other")
    pin = {"all": {"contains": ["bread"], "documents": ["theirs", "their bread", "ours"]}}
    give(here, engine, "walls", {"pin": pin})
    options = {**OPTIONS, "namespace": "walls"}
    assert ids(here.ask("bread", **options)) == ["theirs", "their bread", "ours"]

    answer = here.ask("bread", filters={"customer": "acme"}, **options)
    assert (answer.status, ids(answer)) == ("complete", ["ours"])
    among = {"document_id": ["theirs", "ours"], "customer": {"all": ["other"]}}
    assert ids(here.ask("bread", filters=among, **options)) == ["theirs"]
    assert ids(here.ask("bread", exclude_ids=["theirs"], **options)) == ["their bread", "ours"]

    answer = here.ask("bread", thresholds={"min_fused_score": 1}, **options)
    assert ids(answer) == ["theirs", "their bread", "ours"]
    answer = here.ask("bread", group_by="customer", diversity=0.5, **options)
    assert ids(answer) == ["theirs", "their bread", "ours"]
    assert all(hit.pinned == "all" for hit in answer.hits)


def test_synonyms_widen_bm25_alone_and_the_answer_names_them(here: OneProcess, engine: Engine) -> None:
    here.index(namespace="words")
    owners = {"words": ["boss"], "means": ["landlord"]}
    give(here, engine, "words", {"synonyms": {"people": {"words": ["lodger", "tenant"]}, "owners": owners}})
    options = {**OPTIONS, "namespace": "words", "branches": ["bm25"]}
    answer = here.ask("Lodgers", **options)
    assert (answer.status, ids(answer)) == ("complete", ["notice"])
    page = answer.questions[0]
    assert (page.rules, page.also_searched) == (("people",), ("tenant",))
    assert answer.hits[0].snippet is not None
    assert answer.hits[0].snippet.highlights, "the synonym is highlighted"
    assert ids(here.ask("boss", **options)) == ["repairs"]
    # One way only, and for BM25 alone.
    assert here.ask("landlord", **options).questions[0].also_searched == ()
    dense = {**options, "branches": ["vector"]}
    with_rule, without = (here.ask("lodger", **{**dense, "namespace": name}) for name in ("words", "default"))
    assert [hit.score for hit in with_rule.hits] == [hit.score for hit in without.hits]


def test_an_answer_is_cached_under_the_rules_that_made_it(here: OneProcess, engine: Engine) -> None:
    here.index(namespace="kept")
    options = {**OPTIONS, "namespace": "kept"}
    pin = {"one": {"questions": ["Is bread good?"], "documents": ["error"]}}
    first = here.ask("is bread good", **options)
    give(here, engine, "kept", {"pin": pin})
    pinned = changed(here, "is bread good", first, **options)
    again = here.ask("is bread good", **options)
    assert again.cached
    assert (ids(again), again.hits[0].pinned) == (ids(pinned), "one")
    # The audit trail keeps what the rules did to the question, and the version of the rules.
    here.drain()
    row = audited(here, pinned.request_id)
    assert row.plan is not None
    assert (row.plan["rules_version"], row.plan["rules"]["0"]["pinned"]) == (1, {"error": "one"})
    assert row.questions[0].hits[0].explanation["pinned"] == "one"
