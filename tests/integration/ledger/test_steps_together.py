"""The scripts of batches: each message and each end has the effect that it would have had alone."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

from chorale_client import Request
from chorale_client.keys import COALESCING, OUTBOX, entry_key
from chorale_client.wire_names import QUEUE_FUSION
from pydantic_core import from_json

from ledger.breaker_outcomes import Outcome
from ledger.breakers import Breakers
from ledger.protocol import End, UnreportedResult
from records.audit.outbox import parse
from tasks.celery_internals.result_backend import part_id
from tests.integration.ledger.real import Real
from tests.support.ledger.requests import BODY, CALLBACK, failed, ok


def in_flight(real: Real, *branches: str, **options: object) -> Request:
    return real.accepted(*branches, timeout_s=60, limit_ms=50_000, **options)


def test_each_message_of_a_batch_starts_or_joins_its_own_request(real: Real) -> None:
    usual, hedged, cancelled, due, early = (in_flight(real, "bm25") for _ in range(5))
    decided = in_flight(real, "bm25", "vector", decisive=["vector"])
    real.ledger.report(decided.request_id, "vector", failed("vector"))
    real.ledger.report(due.request_id, "bm25", ok("bm25"))
    real.callers.cancel(cancelled.request_id)
    messages = [
        ("chorale.search.bm25", part_id(request.request_id, "bm25", attempt))
        for request, attempt in [(usual, 1), (hedged, 2), (cancelled, 1), (decided, 1)]
    ]
    messages += [("chorale.fuse", request.request_id) for request in (due, early)]
    real.wait_together(*messages)

    steps = real.ledger.take(first=None, most={"together": 8})

    assert [one.is_known for one in steps] == [True] * 6
    assert [one.started is not None for one in steps] == [True, True, False, False, False, False]
    joined = [one.joined.request_id if one.joined else None for one in steps]
    assert joined == [None] * 4 + [due.request_id, None]


def ids_waiting(real: Real) -> list[str]:
    """The ids on the queue `together`, the next first."""
    return [
        json.loads(raw)["headers"]["id"]
        for raw in reversed(cast("list[bytes]", real.redis.lrange("together", 0, -1)))
    ]


def test_a_message_of_celery_is_left_at_the_head_of_its_queue(real: Real) -> None:
    first, last = (part_id(in_flight(real, "bm25").request_id, "bm25", 1) for _ in range(2))
    real.wait_together(("chorale.search.bm25", first), ("shop.report", "7"), ("chorale.search.bm25", last))

    steps = real.ledger.take(first=None, most={"together": 8})

    assert [one.started is not None for one in steps] == [True]
    assert ids_waiting(real) == ["7", last]


def test_each_report_of_a_batch_counts_for_its_own_request(real: Real) -> None:
    usual, hedged, cancelled = (in_flight(real, "bm25") for _ in range(3))
    decided = in_flight(real, "bm25", "vector", decisive=["vector"])
    real.redis.hset(entry_key(hedged.request_id), "hedged:bm25", 1)
    real.callers.cancel(cancelled.request_id)
    reports = [
        (usual, ok("bm25"), "joined"),
        (hedged, failed("bm25"), "waits"),
        (hedged, ok("bm25", attempt=2), "joined"),
        (cancelled, ok("bm25"), "closed"),
        (decided, failed("vector"), "joined"),
        (decided, ok("bm25"), "closed"),
    ]
    outcomes = real.ledger.report_all([(one.request_id, said, None, CALLBACK) for one, said, _ in reports])
    assert outcomes == [outcome for _, _, outcome in reports]


def test_a_worker_that_fuses_gets_the_requests_that_its_reports_complete(real: Real) -> None:
    whole, half = in_flight(real, "bm25"), in_flight(real, "bm25", "vector")
    reports = [(one.request_id, ok("bm25"), None) for one in (whole, half, whole)]
    [joined] = real.ledger.report_and_join(reports)
    assert joined.request_id == whole.request_id
    assert real.ledger.join(whole.request_id) is None, "it was joined already"
    assert real.redis.llen(QUEUE_FUSION) == 0


def test_a_worker_reads_only_the_answers_that_it_has_not_just_reported(real: Real) -> None:
    request = in_flight(real, "bm25", "vector", "hyde")
    real.ledger.report_and_join([(request.request_id, ok("bm25"), None)])
    late, first = ok("vector", attempt=2), ok("vector")
    reports = [(request.request_id, one, None) for one in (first, late, ok("hyde"))]
    [joined] = real.ledger.report_and_join(reports)
    assert joined.reported == {"hyde": ok("hyde")}
    attempts = {name: json.loads(wire)["attempt"] for name, wire in joined.branch_results.items()}
    assert attempts == {"bm25": 1, "vector": 1}, "the first answer counts; the late one is not taken for it"
    assert not joined.forged


def test_the_end_of_a_locally_joined_request_brings_its_branch_results(real: Real) -> None:
    local, other = in_flight(real, "bm25", "vector"), in_flight(real, "bm25")
    accepted_at_ms, results = (
        int(cast("bytes", real.redis.hget(entry_key(local.request_id), "accepted_at"))),
        [UnreportedResult(name, "ok", ok(name, "unreported").to_wire()) for name in ("bm25", "vector")],
    )
    # The caller's login can write the entry.
    forged: dict[Any, Any] = {"status:bm25": "failed", "result:bm25": failed("bm25").to_wire()}
    real.redis.hset(entry_key(local.request_id), mapping=forged)
    earlier = End(local.request_id, BODY, True, unreported=results, accepted_at_ms=accepted_at_ms - 1)
    assert real.ledger.finish_all([earlier], by="fusion") == [(None, [])], (
        "of an earlier request with this id"
    )

    ends = [replace(earlier, accepted_at_ms=accepted_at_ms), End(other.request_id, BODY, True)]
    ended = real.ledger.finish_all(ends, by="fusion")

    assert [took_ms is not None for took_ms, _ in ended] == [True, True]
    entries: Any = real.redis.xrange(OUTBOX)
    audited = [parse(fields).branch_results for _, fields in entries]
    assert audited == [{name: from_json(ok(name, "unreported").to_wire()) for name in ("bm25", "vector")}, {}]


def test_each_end_of_a_batch_answers_its_followers_and_counts_its_own_outcomes(real: Real) -> None:
    breakers = Breakers(real.redis, failures=1, open_s=100)
    leader, follower = (in_flight(real, "bm25", coalescing_key=COALESCING + "x") for _ in range(2))
    cancelled, other = real.accepted(timeout_s=60), real.accepted(timeout_s=60)
    real.callers.cancel(cancelled.request_id)

    def end(request: Request, failing: str, *, coalescing_key: str | None = None) -> End:
        counted = breakers.arguments(request.request_id, [Outcome(failing, "failed", "error")])
        return End(request.request_id, BODY, coalescing_key is not None, counted, coalescing_key)

    ends = [
        end(cancelled, "hyde"),
        end(leader, "vector", coalescing_key=COALESCING + "x"),
        end(other, "bm25"),
    ]
    ended = real.ledger.finish_all(ends, by="fusion")

    assert [took_ms is not None for took_ms, _ in ended] == [False, True, True]
    assert real.callers.result(follower.request_id) is not None
    assert breakers.read(["bm25", "vector", "hyde"]).breakers.keys() == {"bm25", "vector"}
    assert real.redis.xlen(OUTBOX) == 4, "each end is audited once"
