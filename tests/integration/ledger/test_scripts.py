"""The ledger's scripts on a real Redis, without workers.

The promises of the contract run on a stepped clock (`stepped`), tests of Redis itself on the server's (`in_flight`).
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from chorale_client import Request
from chorale_client.keys import OUTBOX, SWEEPER, entry_key, result_key
from chorale_client.ledger import CallersLedger
from chorale_client.protocol_constants import PROTOCOL
from chorale_client.scripts import prelude
from redis import Redis
from redis.exceptions import OutOfMemoryError

from tests.contracts.ledger import (
    TAIL,
    AcceptingContract,
    EndingContract,
    JoiningContract,
    PlanningContract,
    ReportingContract,
    SubmittingContract,
    a_request,
    ok,
    plan,
)
from tests.contracts.ledger_outbox import OutboxContract
from tests.contracts.ledger_policies import (
    CancellingContract,
    DecidingContract,
    HedgingContract,
    RefusingContract,
)
from tests.contracts.ledger_sweeping import FollowingContract, SweepingContract
from tests.support.ledger.single_steps import SingleSteps
from tests.support.ledger.stepped_ledger import SteppedLedger


@pytest.fixture
def stepped(redis_client: Redis) -> SteppedLedger:
    return SteppedLedger(redis_client)


@pytest.fixture
def callers(redis_client: Redis) -> CallersLedger:
    return CallersLedger(redis_client)


@pytest.fixture
def in_flight(redis_client: Redis, callers: CallersLedger) -> Request:
    """A request with two branches, `bm25` and `vector`, by the server's own clock."""
    request = a_request()
    callers.accept(request)
    assert plan(SingleSteps(redis_client), request, "bm25", "vector") == "planned"
    return request


def the_result(redis_client: Redis, request: Request) -> dict[str, Any]:
    """Celery's result document."""
    document: dict[str, Any] = json.loads(cast(bytes, redis_client.get(result_key(request.request_id))))
    return document


def outbox(redis_client: Redis) -> list[dict[bytes, bytes]]:
    return [
        fields for _, fields in cast("list[tuple[bytes, dict[bytes, bytes]]]", redis_client.xrange(OUTBOX))
    ]


class TestAccepting(AcceptingContract): ...


class TestPlanning(PlanningContract): ...


class TestSubmitting(SubmittingContract): ...


class TestReporting(ReportingContract): ...


class TestJoining(JoiningContract): ...


class TestEnding(EndingContract):
    @pytest.fixture
    def real(self, redis_client: Redis) -> SingleSteps:
        """By the server's own clock."""
        return SingleSteps(redis_client)

    def test_the_end_and_its_outbox_entry_are_one(
        self, redis_client: Redis, real: SingleSteps, in_flight: Request
    ) -> None:
        """A reader that sees the answer also finds the entry for the audit."""
        real.report(in_flight.request_id, "bm25", ok("bm25"))
        with redis_client.monitor() as monitor:
            real.finish(in_flight.request_id, by="fusion", tail=TAIL, is_complete=True)
            redis_client.echo("the end")
            commands = []
            for seen in monitor.listen():
                if "the end" in seen["command"]:
                    break
                commands.append((seen["client_type"], seen["command"].split()[0]))
        inside = [command for kind, command in commands if kind == "lua"]
        assert {"DEL", "SET", "PUBLISH", "XADD"} <= set(inside)
        assert inside.index("DEL") < inside.index("SET"), (
            "deletions first: a full Redis can still end requests"
        )
        (fields,) = outbox(redis_client)
        assert fields[b"id"] == in_flight.request_id.encode()
        assert fields[b"by"] == b"fusion"
        assert b"envelope:bm25" in fields
        assert json.loads(fields[b"answer"])["status"] == "complete"

    def test_an_end_leaves_only_answer_and_outbox(
        self, redis_client: Redis, real: SingleSteps, in_flight: Request
    ) -> None:
        real.finish(in_flight.request_id, by="fusion", tail=TAIL, is_complete=True)
        redis_client.delete("queue.bm25", "queue.vector")
        assert set(redis_client.keys("*")) == {OUTBOX.encode(), result_key(in_flight.request_id).encode()}

    def test_a_full_redis_can_still_end_requests(
        self, redis_client: Redis, real: SingleSteps, in_flight: Request
    ) -> None:
        real.load(in_flight.request_id)
        real.finish(
            "unknown", by="fusion", tail=TAIL, is_complete=True
        )  # the script itself is known to the server
        redis_client.config_set("maxmemory", "100kb")
        try:
            with pytest.raises(OutOfMemoryError):
                redis_client.set("anything", "else")
            assert real.finish(in_flight.request_id, by="fusion", tail=TAIL, is_complete=True) is not None
        finally:
            redis_client.config_set("maxmemory", "0")

    def test_a_waiting_caller_receives_the_result(
        self, redis_client: Redis, real: SingleSteps, callers: CallersLedger, in_flight: Request
    ) -> None:
        with redis_client.pubsub(ignore_subscribe_messages=True) as channel:
            channel.subscribe(result_key(in_flight.request_id))
            late = threading.Timer(
                0.1, real.finish, [in_flight.request_id], {"by": "fusion", "tail": TAIL, "is_complete": True}
            )
            late.start()
            result = callers.wait(channel, in_flight.request_id, 5)
            late.join()
        assert result == redis_client.get(result_key(in_flight.request_id))

    def test_the_time_it_took_is_by_the_servers_clock(
        self, redis_client: Redis, real: SingleSteps, in_flight: Request
    ) -> None:
        time.sleep(0.1)
        took_ms = real.finish(in_flight.request_id, by="fusion", tail=TAIL, is_complete=True)
        answer = the_result(redis_client, in_flight)["result"]
        assert took_ms is not None
        assert answer["took_ms"] == took_ms >= 100

    def test_date_done_is_the_moment_of_the_end(
        self, redis_client: Redis, real: SingleSteps, in_flight: Request
    ) -> None:
        seconds, _ = redis_client.time()
        real.finish(in_flight.request_id, by="fusion", tail=TAIL, is_complete=True)
        done = the_result(redis_client, in_flight)["date_done"]
        assert abs((datetime.fromisoformat(done) - datetime.fromtimestamp(seconds, UTC)).total_seconds()) < 2


class TestSweeping(SweepingContract):
    def test_a_request_ends_by_the_servers_own_clock(
        self, redis_client: Redis, callers: CallersLedger
    ) -> None:
        accepted = callers.accept(a_request(timeout_s=0.05))
        real = SingleSteps(redis_client)
        until = time.monotonic() + 5
        while (entry := real.join(accepted.request_id, force=bool(real.sweep("sweeper").actions))) is None:
            assert time.monotonic() < until, "nobody ended it"
            time.sleep(0.002)
        assert entry.now_ms >= accepted.deadline_ms - 10

    def test_the_lease_of_a_sweeper_is_kept_by_the_server(self, redis_client: Redis) -> None:
        real = SingleSteps(redis_client, prelude=prelude(replace(PROTOCOL, sweeper_lease_ms=60_000)))
        assert real.sweep("first").is_acting
        assert not real.sweep("second").is_acting
        assert 0 < redis_client.pttl(SWEEPER) <= 60_000
        redis_client.delete(SWEEPER)
        assert real.sweep("second").is_acting


class TestFollowing(FollowingContract): ...


class TestCancelling(CancellingContract): ...


class TestDeciding(DecidingContract): ...


class TestHedging(HedgingContract): ...


class TestRefusing(RefusingContract): ...


class TestOutbox(OutboxContract): ...


def test_an_entry_that_nobody_ended_and_a_flight_expire(redis_client: Redis, callers: CallersLedger) -> None:
    request = a_request()
    callers.accept(request)
    plan(SingleSteps(redis_client), request, "bm25", flight="chorale:flight:x")
    assert 3_600_000 < redis_client.pttl(entry_key(request.request_id)) <= 3_610_000
    assert 0 < redis_client.pttl("chorale:flight:x") <= 10_000
    SingleSteps(redis_client).finish(request.request_id, by="fusion", tail=TAIL, is_complete=True)
    assert 0 < redis_client.pttl(result_key(request.request_id)) <= 600_000
