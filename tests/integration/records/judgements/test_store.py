"""Rows of feedback on each kind of database: they change with a later event, and end with their request."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from redis import Redis
from sqlalchemy import Engine

from records.audit import deletion
from records.audit.deletion import Retention
from records.audit.drainer import Drainer
from records.audit.queries import Which, last
from records.judgements import store
from records.judgements.feedback import Event, Feedback
from tests.support.ledger.audit_entries import make_request, put, whole_entry

DOCUMENT = "docs:guide.md"
NOW_MS = time.time_ns() // 1_000_000
DAY_MS = 86_400_000
REQUESTS = {"t.acme.new": 0, "t.zenith.same": 1, "old": 3}
"""Days since each request was accepted; the first two ask the same."""


@pytest.fixture
def engine(engine: Engine, redis_client: Redis) -> Engine:
    """The trail of `REQUESTS`, each with one hit."""
    for name, days in REQUESTS.items():
        text = "how old?" if name == "old" else "how new?"
        request = make_request(text, request_id=name, namespace="docs")
        put(redis_client, whole_entry(request, accepted_at_ms=NOW_MS - days * DAY_MS))
    Drainer(redis_client, engine, keep_texts=True).drain_once(1)
    return engine


def grade(engine: Engine, request_id: str, grade: int, *, key: str = "k", at_ms: int = NOW_MS) -> Feedback:
    question = store.questions(engine, "docs", [request_id])[request_id, 0]
    event = Event(request_id=request_id, action="grade", document_id=DOCUMENT, grade=grade)
    return Feedback.on(question, event, at_ms, key, "judge")


def test_a_later_event_replaces_the_earlier_one_of_its_key_in_whatever_order_they_come(
    engine: Engine,
) -> None:
    latest = grade(engine, "t.acme.new", 3, at_ms=NOW_MS + 2)
    other_key = grade(engine, "t.acme.new", 1, key="other")
    store.put(engine, [grade(engine, "t.acme.new", 0), grade(engine, "t.acme.new", 2, at_ms=NOW_MS + 1)])
    store.put(engine, [latest, other_key])
    store.put(engine, [grade(engine, "t.acme.new", 1, at_ms=NOW_MS + 1)])
    assert store.listed(engine, "docs") == [other_key, latest]
    assert store.listed(engine, "other") == []
    assert store.counts(engine, "docs") == {"judge": {"grade": 2}}


def test_feedback_is_deleted_with_its_request_and_never_written_after_it(engine: Engine) -> None:
    new, old = grade(engine, "t.acme.new", 3), grade(engine, "old", 1)
    store.put(engine, [new, old])
    assert Retention(engine, keep_s=2 * 86_400).prune_once() == 1
    assert store.listed(engine, "docs") == [new]
    with pytest.raises(store.NotRecorded, match="'old'"):
        store.put(engine, [replace(new, grade=0), old])
    assert store.listed(engine, "docs") == [new]  # all or nothing
    deletion.remove_rows(engine, deletion.requests_of("namespace", "docs"))
    assert store.listed(engine, "docs") == []


def test_feedback_that_is_being_written_is_deleted_too_by_whoever_deletes_its_request_meanwhile(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    holds, go_on = threading.Event(), threading.Event()

    def keep_and_wait(*arguments: Any) -> set[str]:
        existing = deletion.keep_rows(*arguments)
        holds.set()
        go_on.wait(10)
        return existing

    monkeypatch.setattr(store, "keep_rows", keep_and_wait)
    writer = threading.Thread(target=store.put, args=(engine, [grade(engine, "old", 1)]))
    eraser = threading.Thread(
        target=deletion.remove_rows, args=(engine, deletion.requests_of("request_id", "old"))
    )
    writer.start()
    assert holds.wait(10)
    eraser.start()
    time.sleep(0.2)  # the eraser may arrive at the lock
    go_on.set()
    for thread in (writer, eraser):
        thread.join(10)
        assert not thread.is_alive()
    assert store.questions(engine, "docs", ["old"]) == {}
    assert store.listed(engine, "docs") == []


def test_coverage_names_each_text_once_and_counts_the_feedback_of_a_tenant_alone(engine: Engine) -> None:
    store.put(engine, [grade(engine, "t.zenith.same", 0)])

    def covered(newest: int = 10, **selection: str) -> list[tuple[str, int, int]]:
        items = store.coverage(engine, Which(namespace="docs"), newest, **selection)
        return [(item.question.request_id, item.hits, item.judged) for item in items]

    # A grade of 0 is a judgement: the document is not unjudged.
    assert covered() == [("t.acme.new", 1, 1), ("old", 1, 0)]
    assert covered(tenant="acme") == [("t.acme.new", 1, 0), ("old", 1, 0)]
    assert covered(newest=1) == [("t.acme.new", 1, 1)]


def test_a_recorded_question_is_found_by_its_request_and_by_the_hash_of_its_text(engine: Engine) -> None:
    new = store.questions(engine, "docs", ["t.acme.new"])["t.acme.new", 0]
    questions = store.questions(engine, "docs", [new.text_hash, "unknown"])
    assert questions[new.text_hash, 0] == new  # the newest of two
    assert ("unknown", 0) not in questions
    assert store.questions(engine, "law", [new.text_hash]) == {}


def test_the_feedback_on_a_text_is_that_of_a_tenant_s_requests_oldest_first(engine: Engine) -> None:
    acme = grade(engine, "t.acme.new", 3, at_ms=NOW_MS + 1)
    zenith, other = grade(engine, "t.zenith.same", 0), grade(engine, "old", 1)
    store.put(engine, [acme, zenith, other])
    assert store.on_questions(engine, ["docs"], [acme.text_hash]) == [zenith, acme]
    assert store.on_questions(engine, ["docs"], [acme.text_hash], tenant="acme") == [acme]
    assert store.on_questions(engine, ["law"], [acme.text_hash]) == []
    assert store.on_questions(engine, ["docs"], ["unknown"]) == []


def test_graded_requests_are_those_with_a_grade_or_a_thumb(engine: Engine) -> None:
    question = store.questions(engine, "docs", ["old"])["old", 0]
    nothing = Event(request_id="old", action="nothing_fits")
    click = Event(request_id="old", action="click", document_id=DOCUMENT)
    seen = [Feedback.on(question, event, NOW_MS, "k", "user") for event in (nothing, click)]
    store.put(engine, [grade(engine, "t.acme.new", 0), *seen])
    which = Which(namespace="docs", among=store.GRADED_REQUESTS)
    assert [row.request_id for row in last(engine, 10, which)] == ["t.acme.new"]
