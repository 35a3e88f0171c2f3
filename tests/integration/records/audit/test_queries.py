"""Reading the audit trail."""

from __future__ import annotations

import pytest
from redis import Redis
from sqlalchemy import Engine, event, update

from models.tables.audit import RequestRow
from records.audit.drainer import Drainer
from records.audit.queries import MINUTE_MS, Minute, Which, last, listed, minutes, show
from tests.support.ledger.audit_entries import (
    ACCEPTED_AT_MS,
    late,
    make_answer,
    make_branch_result,
    make_entry,
    make_plan,
    make_ranking,
    make_request,
    put,
    whole_entry,
)
from tests.support.ledger.audit_rows import branch_result_of, count


@pytest.fixture
def drain(redis_client: Redis, engine: Engine) -> Drainer:
    return Drainer(redis_client, engine, keep_texts=True)


def test_the_last_requests_come_first(redis_client: Redis, engine: Engine, drain: Drainer) -> None:
    assert (count(engine), last(engine, 10), show(engine, "nobody")) == (0, [], None)
    for name, age_ms in (("second", 2), ("newest", 1), ("oldest", 3)):
        request = make_request(f"what is {name}?", "and more?", request_id=name)
        put(redis_client, whole_entry(request, accepted_at_ms=ACCEPTED_AT_MS - age_ms))
    put(redis_client, whole_entry(make_request(request_id="second"), accepted_at_ms=ACCEPTED_AT_MS - 4))
    drain.drain_once(1)
    first, then = last(engine, 2)
    assert (first.request_id, then.request_id, first.status) == ("newest", "second", "complete")
    assert [question.text for question in first.questions] == ["what is newest?", "and more?"]
    assert (listed(first)["text"], listed(first)["questions"]) == ("what is newest?", 2)
    row = show(engine, "second")
    assert row is not None
    assert row.accepted_at_ms == ACCEPTED_AT_MS - 2, "the later of two requests with one id"
    assert count(engine) == 4


def test_the_lists_of_all_requests_are_read_by_as_many_statements_as_those_of_one(
    redis_client: Redis, engine: Engine, drain: Drainer
) -> None:
    put(redis_client, *(whole_entry(make_request(request_id=f"id-{number}")) for number in range(3)))
    drain.drain_once(1)
    statements: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    (newest,) = last(engine, 1, with_branches=True)
    assert {branch.branch for branch in newest.branches} == {"bm25", "vector", "hyde"}
    per_call = len(statements)
    rows = last(engine, 3, with_branches=True)
    assert [len(row.branches) for row in rows] == [3, 3, 3]
    assert len(statements) == 2 * per_call


def test_everything_about_one_request_is_returned(
    redis_client: Redis, engine: Engine, drain: Drainer
) -> None:
    request = make_request("first", {"text": "second", "bm25_query": "keyword"}, request_id="one")
    answer = make_answer(request, status="degraded", degraded=[late("vector")])
    branch_result = make_branch_result("bm25", make_ranking("a", "b"), make_ranking("c"))
    put(
        redis_client,
        make_entry(request, plan=make_plan(request), answer=answer, branch_results=(branch_result,)),
    )
    drain.drain_once(1)
    row = show(engine, "one")
    assert row is not None
    assert (row.status, row.degraded) == ("degraded", [late("vector")])
    assert [question.text for question in row.questions] == ["first", "second"]
    keyword = {"kind": "keyword", "text": "keyword", "replace": False}
    assert row.questions[1].rewrites == {"variants": [keyword]}
    ((hit,), (other,)) = (question.hits for question in row.questions)
    assert (hit.document_id, hit.score, hit.rank) == ("docs:guide.md", 1 / 61, 1)
    assert other.explanation["branches"] == {"bm25": {"rank": 1, "score": 9.5}}
    by_name = {branch.branch: branch for branch in row.branches}
    assert branch_result_of(by_name["bm25"]) == branch_result
    assert (by_name["vector"].reason, by_name["vector"].rankings) == ("not_started", ())


def test_minutes_have_the_number_of_requests_the_partial_ones_and_the_time_of_most(
    redis_client: Redis, engine: Engine, drain: Drainer
) -> None:
    first = ACCEPTED_AT_MS // MINUTE_MS
    for number in range(1, 21):
        request = make_request(request_id=f"id-{number}")
        put(redis_client, whole_entry(request, accepted_at_ms=first * MINUTE_MS + number))
    shadow = make_request(request_id="id-20.shadow")  # for which nobody waits
    put(redis_client, whole_entry(shadow, accepted_at_ms=first * MINUTE_MS + 21))
    put(redis_client, whole_entry(make_request(), accepted_at_ms=(first + 2) * MINUTE_MS - 1))
    put(redis_client, whole_entry(make_request(), accepted_at_ms=(first + 2) * MINUTE_MS))
    drain.drain_once(1)
    with engine.begin() as connection:
        for number, status in ((7, "degraded"), (8, "failed"), (9, "skipped")):
            of = RequestRow.request_id == f"id-{number}"
            connection.execute(update(RequestRow).where(of).values(status=status))
        for number in range(1, 21):
            of = RequestRow.request_id == f"id-{number}"
            connection.execute(update(RequestRow).where(of).values(took_ms=10.0 * number))
    every, by_callers = (
        {row.request_id for row in last(engine, 100, which)} for which in (Which(), Which(by_callers=True))
    )
    assert every - by_callers == {"id-20.shadow"}
    read = minutes(engine, first, 2)
    assert read[first] == Minute(requests=20, partial=2, p95_ms=190.0)
    assert ({*read}, read[first + 1].requests) == ({first, first + 1}, 1)
