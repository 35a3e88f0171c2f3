"""Reading the audit trail."""

from __future__ import annotations

import pytest
import redis
from sqlalchemy import Engine, text

from audit.drainer import Drainer
from audit.queries import last, listed, show
from models.audit_tables import AuditTable
from tests.support.ledger.audit_entries import (
    ACCEPTED_AT_MS,
    late,
    make_answer,
    make_entry,
    make_envelope,
    make_plan,
    make_ranking,
    make_request,
    put,
    whole_entry,
)
from tests.support.ledger.audit_rows import count, envelope_of


@pytest.fixture
def drain(redis_client: redis.Redis, engine: Engine) -> Drainer:
    return Drainer(redis_client, engine, keep_texts=True)


def test_an_empty_trail_has_no_requests(engine: Engine) -> None:
    assert (count(engine), last(engine, 10), show(engine, "nobody")) == (0, [], None)


def test_the_last_requests_come_newest_first(
    redis_client: redis.Redis, engine: Engine, drain: Drainer
) -> None:
    for name, age_ms in (("second", 2), ("newest", 1), ("oldest", 3)):
        request = make_request(f"what is {name}?", "and more?", request_id=name)
        put(redis_client, whole_entry(request, accepted_at_ms=ACCEPTED_AT_MS - age_ms))
    drain.drain_once(1)
    first, then = last(engine, 2)
    assert (first.request_id, then.request_id) == ("newest", "second")
    assert [question.text for question in first.questions] == ["what is newest?", "and more?"]
    assert (listed(first)["text"], listed(first)["questions"], first.status) == (
        "what is newest?",
        2,
        "complete",
    )
    assert count(engine) == 3


def test_show_returns_everything_about_one_request(
    redis_client: redis.Redis, engine: Engine, drain: Drainer
) -> None:
    request = make_request("first", {"text": "second", "bm25_query": "keyword"}, request_id="one")
    answer = make_answer(request, status="degraded", degraded=[late("vector")])
    rankings = make_ranking("a", "b"), make_ranking("c")
    envelope = make_envelope("bm25", *rankings)
    put(redis_client, make_entry(request, plan=make_plan(request), answer=answer, envelopes=(envelope,)))
    drain.drain_once(1)
    found = show(engine, "one")
    assert found is not None
    assert (found.status, found.degraded) == ("degraded", [late("vector")])
    assert [question.text for question in found.questions] == ["first", "second"]
    assert found.questions[1].rewrites == {
        "variants": [{"kind": "keyword", "text": "keyword", "replace": False}]
    }
    ((hit,), (other,)) = (question.hits for question in found.questions)
    assert (hit.document_id, hit.score, hit.rank) == ("docs:guide.md", 1 / 61, 1)
    assert other.explanation["branches"] == {"bm25": {"rank": 1, "score": 9.5}}
    by_name = {branch.branch: branch for branch in found.branches}
    assert envelope_of(by_name["bm25"]) == envelope
    assert (by_name["vector"].reason, by_name["vector"].rankings) == ("not_started", ())


def test_the_later_of_two_requests_with_one_id_is_shown(
    redis_client: redis.Redis, engine: Engine, drain: Drainer
) -> None:
    request = make_request(request_id="one")
    for accepted_at_ms in (ACCEPTED_AT_MS + 5, ACCEPTED_AT_MS):
        put(redis_client, whole_entry(request, accepted_at_ms=accepted_at_ms))
    drain.drain_once(1)
    found = show(engine, "one")
    assert found is not None
    assert (found.accepted_at_ms, len(found.questions), len(found.branches)) == (ACCEPTED_AT_MS + 5, 1, 3)


def test_deleting_a_request_deletes_its_children(
    redis_client: redis.Redis, engine: Engine, drain: Drainer
) -> None:
    put(redis_client, whole_entry())
    drain.drain_once(1)
    tables = AuditTable.metadata.tables
    with engine.begin() as connection:
        assert all(connection.scalar(text(f"SELECT count(*) FROM {table}")) for table in tables)
        connection.execute(text("DELETE FROM chorale_request"))
        assert not any(connection.scalar(text(f"SELECT count(*) FROM {table}")) for table in tables)


def test_a_question_is_shown_by_its_hash_when_texts_are_not_audited(
    redis_client: redis.Redis, engine: Engine
) -> None:
    put(redis_client, whole_entry(make_request("secret", request_id="one")))
    Drainer(redis_client, engine, keep_texts=False).drain_once(1)
    found = show(engine, "one")
    assert found is not None
    assert (found.questions[0].text, listed(last(engine, 1)[0])["text"]) == (None, None)
    assert len(found.questions[0].text_hash) == 64
