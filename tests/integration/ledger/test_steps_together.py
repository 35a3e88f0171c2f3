"""The scripts of batches: each message and each end has the effect that it would have had alone."""

from __future__ import annotations

import json

import pytest
from chorale_client import Request
from chorale_client.keys import FLIGHT, OUTBOX, entry_key
from chorale_client.ledger import CallersLedger
from chorale_client.words import QUEUE_FUSION
from redis import Redis

from ledger.breakers import Breakers
from ledger.outcomes import Outcome
from ledger.protocol import End
from tasks.celery_surface.result_backend import part_id
from tests.support.ledger.requests import CALLBACK, TAIL, a_request, failed, ok, plan
from tests.support.ledger.single_steps import SingleSteps

LIMIT_MS = 50_000


@pytest.fixture
def ledger(redis_client: Redis) -> SingleSteps:
    return SingleSteps(redis_client)


@pytest.fixture
def callers(redis_client: Redis) -> CallersLedger:
    return CallersLedger(redis_client)


def accepted(callers: CallersLedger) -> Request:
    request = a_request(timeout_s=60)
    callers.accept(request)
    return request


def message(task: str, task_id: str) -> str:
    return json.dumps({"headers": {"task": task, "id": task_id}})


def test_each_message_of_a_batch_starts_or_joins_its_own_request(
    redis_client: Redis, ledger: SingleSteps, callers: CallersLedger
) -> None:
    usual, hedged, cancelled, decided, due, early = (accepted(callers) for _ in range(6))
    for request in (usual, hedged, cancelled, due, early):
        plan(ledger, request, "bm25", limit_ms=LIMIT_MS)
    plan(ledger, decided, "bm25", "vector", limit_ms=LIMIT_MS, decisive=["vector"])
    ledger.report(decided.request_id, "vector", failed("vector"))
    ledger.report(due.request_id, "bm25", ok("bm25"))
    callers.cancel(cancelled.request_id)
    attempts = [(usual, 1), (hedged, 2), (cancelled, 1), (decided, 1)]
    for request, attempt in attempts:
        redis_client.lpush(
            "together", message("chorale.search.bm25", part_id(request.request_id, "bm25", attempt))
        )
    for request in (due, early):
        redis_client.lpush("together", message("chorale.fuse", request.request_id))

    _, *found = ledger.take(first=("together", "", ""), most={"together": 8})

    assert [one.is_known for one in found] == [True] * 6
    assert [one.started is not None for one in found] == [True, True, False, False, False, False]
    joined = [one.joined.request_id if one.joined else None for one in found]
    assert joined == [None] * 4 + [due.request_id, None]


def test_each_report_of_a_batch_counts_for_its_own_request(
    redis_client: Redis, ledger: SingleSteps, callers: CallersLedger
) -> None:
    usual, hedged, cancelled, decided = (accepted(callers) for _ in range(4))
    for request in (usual, hedged, cancelled):
        plan(ledger, request, "bm25", limit_ms=LIMIT_MS)
    plan(ledger, decided, "bm25", "vector", limit_ms=LIMIT_MS, decisive=["vector"])
    redis_client.hset(entry_key(hedged.request_id), "hedged:bm25", 1)
    callers.cancel(cancelled.request_id)
    reports = [
        (usual, ok("bm25")),
        (hedged, failed("bm25")),
        (hedged, ok("bm25", attempt=2)),
        (cancelled, ok("bm25")),
        (decided, failed("vector")),
        (decided, ok("bm25")),
    ]
    outcomes = ledger.report_all([(one.request_id, envelope, None, CALLBACK) for one, envelope in reports])
    assert outcomes == ["joined", "waits", "joined", "closed", "joined", "closed"]


def test_a_worker_that_fuses_gets_the_requests_that_its_reports_complete(
    redis_client: Redis, ledger: SingleSteps, callers: CallersLedger
) -> None:
    whole, half = accepted(callers), accepted(callers)
    plan(ledger, whole, "bm25", limit_ms=LIMIT_MS)
    plan(ledger, half, "bm25", "vector", limit_ms=LIMIT_MS)
    reports = [(one.request_id, ok("bm25"), None) for one in (whole, half, whole)]
    [joined] = ledger.report_and_join(reports)
    assert joined.request_id == whole.request_id
    assert ledger.join(whole.request_id) is None, "it was joined already"
    assert redis_client.llen(QUEUE_FUSION) == 0


def test_a_worker_reads_only_the_answers_that_it_has_not_just_reported(
    ledger: SingleSteps, callers: CallersLedger
) -> None:
    request = accepted(callers)
    plan(ledger, request, "bm25", "vector", "hyde", limit_ms=LIMIT_MS)
    ledger.report_and_join([(request.request_id, ok("bm25"), None)])
    late, first = ok("vector", attempt=2), ok("vector")
    reports = [(request.request_id, one, None) for one in (first, late, ok("hyde"))]
    [joined] = ledger.report_and_join(reports)
    assert joined.reported == {"hyde": ok("hyde")}
    assert {name: json.loads(wire)["attempt"] for name, wire in joined.envelopes.items()} == {
        "bm25": 1,
        "vector": 1,
    }, "the first answer counts, and the one that came too late is not taken for it"
    assert not joined.forged


def test_each_end_of_a_batch_answers_its_followers_and_counts_its_own_outcomes(
    redis_client: Redis, ledger: SingleSteps, callers: CallersLedger
) -> None:
    breakers = Breakers(redis_client, failures=1, open_s=100)
    leader, follower, cancelled, other = (accepted(callers) for _ in range(4))
    for request in (leader, follower):
        plan(ledger, request, "bm25", limit_ms=LIMIT_MS, flight=FLIGHT + "x")
    callers.cancel(cancelled.request_id)

    def end(request: Request, failing: str, *, flight: str | None = None) -> End:
        counted = breakers.arguments(request.request_id, [Outcome(failing, "failed", "error")])
        return End(request.request_id, TAIL, flight is not None, counted, flight)

    ends = [end(cancelled, "hyde"), end(leader, "vector", flight=FLIGHT + "x"), end(other, "bm25")]
    found = ledger.finish_all(ends, by="fusion")

    assert [took_ms is not None for took_ms, _ in found] == [False, True, True]
    assert callers.result(follower.request_id) is not None
    assert breakers.look(["bm25", "vector", "hyde"]).breakers.keys() == {"bm25", "vector"}
    assert redis_client.xlen(OUTBOX) == 4, "each end is audited once"
