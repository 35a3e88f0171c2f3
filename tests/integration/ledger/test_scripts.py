"""The ledger's scripts on a real Redis: each promise by itself, without workers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from chorale_client import Request, RequestIdConflict, make_request
from chorale_client.keys import FLIGHT, MOMENTS, OUTBOX, entry_key, result_key
from chorale_client.ledger import CallersLedger
from redis import Redis
from redis.exceptions import OutOfMemoryError

from ledger.protocol import Action, Callback, Part
from ledger.redis import RedisLedger
from models.envelope import Envelope

TAIL = '"v":1,"status":"complete","questions":[]}'
OTHER_TAIL = '"v":1,"status":"degraded","questions":[]}'


@pytest.fixture
def ledger(redis_client: Redis) -> RedisLedger:
    return RedisLedger(redis_client)


@pytest.fixture
def callers(redis_client: Redis) -> CallersLedger:
    return CallersLedger(redis_client)


def a_request(timeout_s: float = 10, **options: object) -> Request:
    return make_request("bread", timeout_s=timeout_s, **options)


def plan(
    ledger: RedisLedger,
    request: Request,
    *branches: str,
    limit_ms: int = 10_000,
    resend_ms: int = 5_000,
    finish_ms: int = 60,
    fusion_ms: int = 160,
    flight: str | None = None,
) -> str:
    parts = [
        Part(name, f"queue.{name}", limit_ms, resend_ms, f"message of {name}".encode()) for name in branches
    ]
    return ledger.plan(
        request.request_id,
        b'{"v":1}',
        parts,
        Callback("queue.fusion", b"message of fuse"),
        finish_reserve_ms=finish_ms,
        fusion_reserve_ms=fusion_ms,
        flight=flight,
    )


@pytest.fixture
def planned(ledger: RedisLedger, callers: CallersLedger) -> Iterator[Request]:
    """A request with two branches, `bm25` and `vector`."""
    request = a_request()
    callers.accept(request)
    assert plan(ledger, request, "bm25", "vector") == "planned"
    return request


def the_result(redis_client: Redis, request: Request) -> dict[str, Any]:
    """Celery's result document."""
    document: dict[str, Any] = json.loads(cast(bytes, redis_client.get(result_key(request.request_id))))
    return document


def outbox(redis_client: Redis) -> list[dict[bytes, bytes]]:
    return [
        fields for _, fields in cast("list[tuple[bytes, dict[bytes, bytes]]]", redis_client.xrange(OUTBOX))
    ]


def ok(branch: str, detail: str = "") -> Envelope:
    return Envelope(branch, "ok", detail=detail)


def actions_after(ledger: RedisLedger, seconds: float) -> list[Action]:
    """What a sweeper finds due within this time."""
    found: list[Action] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found += ledger.sweep("the-only-sweeper").actions
        time.sleep(0.01)
    return found


class TestAccepting:
    def test_an_id_is_accepted_once(self, callers: CallersLedger) -> None:
        request = a_request()
        assert callers.accept(request).is_new
        again = callers.accept(request)
        assert (again.is_new, again.state) == (False, "accepted")

    def test_an_id_used_for_something_else_is_refused_also_after_the_end(
        self, ledger: RedisLedger, callers: CallersLedger
    ) -> None:
        request = a_request()
        other = request.model_copy(update={"top_k": 7})
        callers.accept(request)
        with pytest.raises(RequestIdConflict, match=request.request_id):
            callers.accept(other)
        ledger.finish(request.request_id, by="fusion", tail=TAIL, is_complete=True)
        with pytest.raises(RequestIdConflict, match=request.request_id):
            callers.accept(other)
        assert callers.accept(request).result is not None

    def test_nobody_plans_it_so_the_sweeper_sends_it_again_at_most_three_times(
        self, ledger: RedisLedger, callers: CallersLedger
    ) -> None:
        request = a_request(timeout_s=3)
        callers.accept(request)
        assert actions_after(ledger, 2.2) == [Action("retrieve", request.request_id)] * 3


class TestPlanning:
    def test_the_plan_is_written_and_published_once(
        self, redis_client: Redis, ledger: RedisLedger, planned: Request
    ) -> None:
        assert plan(ledger, planned, "bm25", "vector") == "known"
        assert redis_client.lrange("queue.bm25", 0, -1) == [b"message of bm25"]
        assert redis_client.lrange("queue.vector", 0, -1) == [b"message of vector"]

    def test_a_request_that_ended_is_not_planned(self, redis_client: Redis, ledger: RedisLedger) -> None:
        assert plan(ledger, a_request(), "bm25") == "closed"
        assert redis_client.exists("queue.bm25") == 0

    def test_a_part_is_told_how_long_it_has(self, ledger: RedisLedger, planned: Request) -> None:
        started = ledger.start(planned.request_id, "bm25")
        assert started is not None
        # join_at is the deadline less the fusion reserve: 10,000 - 160 ms.
        assert 9_000 < started.left_ms <= 9_840

    def test_a_branch_that_is_not_expected_is_turned_away(
        self, ledger: RedisLedger, planned: Request
    ) -> None:
        assert ledger.start(planned.request_id, "hyde") is None
        assert ledger.report(planned.request_id, "hyde", ok("hyde")) == "closed"


class TestReporting:
    def test_the_last_report_pushes_the_callback_and_no_other_does(
        self, redis_client: Redis, ledger: RedisLedger, planned: Request
    ) -> None:
        assert ledger.report(planned.request_id, "bm25", ok("bm25")) == "counted"
        assert redis_client.llen("queue.fusion") == 0
        assert ledger.report(planned.request_id, "vector", ok("vector")) == "joined"
        assert redis_client.lrange("queue.fusion", 0, -1) == [b"message of fuse"]

    def test_the_first_answer_of_a_branch_wins(self, ledger: RedisLedger, planned: Request) -> None:
        ledger.report(planned.request_id, "bm25", ok("bm25", "first"))
        assert ledger.report(planned.request_id, "bm25", ok("bm25", "second")) == "duplicate"
        entry = ledger.load(planned.request_id)
        assert entry is not None
        assert json.loads(entry.envelopes["bm25"])["detail"] == "first"

    def test_a_branch_reported_twice_counts_once(self, ledger: RedisLedger, planned: Request) -> None:
        for _ in range(10):
            ledger.report(planned.request_id, "bm25", ok("bm25"))
        assert ledger.join(planned.request_id) is None, "vector has not answered yet"

    def test_an_answer_replaces_a_failure_and_never_the_other_way_round(
        self, ledger: RedisLedger, planned: Request
    ) -> None:
        failed = Envelope.failed("bm25", "error")
        assert ledger.report(planned.request_id, "bm25", failed) == "counted"
        assert ledger.report(planned.request_id, "bm25", ok("bm25")) == "replaced"
        assert ledger.report(planned.request_id, "bm25", failed) == "duplicate"
        entry = ledger.load(planned.request_id)
        assert entry is not None
        assert json.loads(entry.envelopes["bm25"])["status"] == "ok"

    def test_what_comes_after_the_snapshot_changes_nothing(
        self, ledger: RedisLedger, planned: Request
    ) -> None:
        ledger.report(planned.request_id, "bm25", ok("bm25"))
        snapshot = ledger.join(planned.request_id, force=True)
        assert snapshot is not None
        assert ledger.report(planned.request_id, "vector", ok("vector")) == "closed"
        again = ledger.load(planned.request_id)
        assert again is not None
        assert again.envelopes.keys() == snapshot.envelopes.keys() == {"bm25"}


class TestJoining:
    def test_a_callback_that_comes_too_early_does_nothing(
        self, ledger: RedisLedger, planned: Request
    ) -> None:
        assert ledger.join(planned.request_id) is None
        assert ledger.report(planned.request_id, "bm25", ok("bm25")) == "counted"

    def test_only_one_fusion_takes_a_request(self, ledger: RedisLedger, planned: Request) -> None:
        ledger.report(planned.request_id, "bm25", ok("bm25"))
        ledger.report(planned.request_id, "vector", ok("vector"))
        assert ledger.join(planned.request_id) is not None
        assert ledger.join(planned.request_id) is None

    def test_at_join_at_the_fusion_takes_what_is_there(
        self, ledger: RedisLedger, callers: CallersLedger
    ) -> None:
        request = a_request()
        callers.accept(request)
        plan(ledger, request, "bm25", "vector", limit_ms=50)
        ledger.report(request.request_id, "bm25", ok("bm25"))
        time.sleep(0.06)
        snapshot = ledger.join(request.request_id)
        assert snapshot is not None
        assert snapshot.envelopes.keys() == {"bm25"}


class TestEnding:
    def test_the_first_terminal_write_wins(
        self, redis_client: Redis, ledger: RedisLedger, planned: Request
    ) -> None:
        assert ledger.finish(planned.request_id, by="fusion", tail=TAIL, is_complete=True) is not None
        assert ledger.finish(planned.request_id, by="sweeper", tail=OTHER_TAIL, is_complete=False) is None
        result = the_result(redis_client, planned)
        assert result["result"]["status"] == "complete"

    def test_the_end_and_its_outbox_entry_are_one(
        self, redis_client: Redis, ledger: RedisLedger, planned: Request
    ) -> None:
        """Whoever sees the answer finds the entry for the audit: there is no moment between them."""
        ledger.report(planned.request_id, "bm25", ok("bm25"))
        with redis_client.monitor() as monitor:
            ledger.finish(planned.request_id, by="fusion", tail=TAIL, is_complete=True)
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
        assert fields[b"id"] == planned.request_id.encode()
        assert fields[b"by"] == b"fusion"
        assert b"envelope:bm25" in fields
        assert json.loads(fields[b"answer"])["status"] == "complete"

    def test_nothing_but_answer_and_outbox_is_left(
        self, redis_client: Redis, ledger: RedisLedger, planned: Request
    ) -> None:
        ledger.finish(planned.request_id, by="fusion", tail=TAIL, is_complete=True)
        redis_client.delete("queue.bm25", "queue.vector")
        assert set(redis_client.keys("*")) == {OUTBOX.encode(), result_key(planned.request_id).encode()}

    def test_a_full_redis_can_still_end_requests(
        self, redis_client: Redis, ledger: RedisLedger, planned: Request
    ) -> None:
        ledger.load(planned.request_id)
        ledger.finish("unknown", by="fusion", tail=TAIL, is_complete=True)  # the script itself is known to the server
        redis_client.config_set("maxmemory", "100kb")
        try:
            with pytest.raises(OutOfMemoryError):
                redis_client.set("anything", "else")
            assert ledger.finish(planned.request_id, by="fusion", tail=TAIL, is_complete=True) is not None
        finally:
            redis_client.config_set("maxmemory", "0")

    def test_whoever_waits_is_woken_with_the_result(
        self, redis_client: Redis, ledger: RedisLedger, callers: CallersLedger, planned: Request
    ) -> None:
        with redis_client.pubsub(ignore_subscribe_messages=True) as channel:
            channel.subscribe(result_key(planned.request_id))
            threading.Timer(
                0.1, ledger.finish, [planned.request_id], {"by": "fusion", "tail": TAIL, "is_complete": True}
            ).start()
            result = callers.wait(channel, planned.request_id, 5)
        assert result == redis_client.get(result_key(planned.request_id))

    def test_a_caller_that_waited_in_vain_ends_it_even_where_redis_lost_the_entry(
        self, redis_client: Redis, callers: CallersLedger
    ) -> None:
        request = a_request(correlation_id='quoted "id"')
        accepted = callers.accept(request)
        redis_client.delete(entry_key(request.request_id))
        answer = json.loads(callers.finish_failed(request, accepted.accepted_at_ms))["result"]
        assert (answer["status"], answer["correlation_id"]) == ("failed", 'quoted "id"')
        assert redis_client.xlen(OUTBOX) == 1
        assert callers.finish_failed(request, accepted.accepted_at_ms) == redis_client.get(
            result_key(request.request_id)
        )
        assert redis_client.xlen(OUTBOX) == 1

    def test_the_time_it_took_is_by_the_servers_clock(
        self, redis_client: Redis, ledger: RedisLedger, planned: Request
    ) -> None:
        time.sleep(0.1)
        took_ms = ledger.finish(planned.request_id, by="fusion", tail=TAIL, is_complete=True)
        answer = the_result(redis_client, planned)["result"]
        assert took_ms is not None
        assert answer["took_ms"] == took_ms >= 100

    def test_date_done_is_the_moment_of_the_end(
        self, redis_client: Redis, ledger: RedisLedger, planned: Request
    ) -> None:
        seconds, _ = redis_client.time()
        ledger.finish(planned.request_id, by="fusion", tail=TAIL, is_complete=True)
        done = the_result(redis_client, planned)["date_done"]
        assert abs((datetime.fromisoformat(done) - datetime.fromtimestamp(seconds, UTC)).total_seconds()) < 2


class TestSweeping:
    def test_only_one_sweeper_acts(self, ledger: RedisLedger) -> None:
        assert ledger.sweep("first").is_acting
        assert not ledger.sweep("second").is_acting
        time.sleep(0.2)
        assert ledger.sweep("second").is_acting, "the first one's lease is over"

    def test_a_part_that_nobody_took_is_sent_again_twice_at_most(
        self, redis_client: Redis, ledger: RedisLedger, callers: CallersLedger
    ) -> None:
        request = a_request()
        callers.accept(request)
        plan(ledger, request, "bm25", "vector", resend_ms=50)
        redis_client.delete("queue.bm25", "queue.vector")
        ledger.start(request.request_id, "vector")
        found = actions_after(ledger, 1.8)
        assert found == [Action("part", request.request_id, "bm25")] * 2, "and what was started is not"

    def test_a_part_that_still_waits_in_its_queue_is_not_sent_again(
        self, ledger: RedisLedger, callers: CallersLedger
    ) -> None:
        request = a_request()
        callers.accept(request)
        plan(ledger, request, "bm25", resend_ms=50)
        assert actions_after(ledger, 0.7) == []

    def test_at_join_at_the_callback_is_published_for_what_is_there(
        self, redis_client: Redis, ledger: RedisLedger, callers: CallersLedger
    ) -> None:
        request = a_request()
        callers.accept(request)
        plan(ledger, request, "bm25", "vector", limit_ms=50)
        assert actions_after(ledger, 0.2) == [Action("fused", request.request_id)]
        assert redis_client.lrange("queue.fusion", 0, -1) == [b"message of fuse"]

    def test_a_fusion_that_died_is_called_again_and_then_the_sweeper_ends_it(
        self, ledger: RedisLedger, callers: CallersLedger
    ) -> None:
        request = a_request(timeout_s=1)
        callers.accept(request)
        plan(ledger, request, "bm25", finish_ms=60, fusion_ms=160)
        ledger.report(request.request_id, "bm25", ok("bm25"))
        assert ledger.join(request.request_id) is not None
        found = [action.do for action in actions_after(ledger, 1.0)]
        assert found[0] == "fused"
        assert found[-1] == "end"

    def test_every_request_is_ended_before_its_deadline(
        self, ledger: RedisLedger, callers: CallersLedger
    ) -> None:
        request = a_request(timeout_s=0.5)
        accepted = callers.accept(request)
        plan(ledger, request, "bm25", finish_ms=60, fusion_ms=160)
        until = time.monotonic() + 2
        while not any(action.do == "end" for action in ledger.sweep("sweeper").actions):
            assert time.monotonic() < until, "nobody ended it"
            time.sleep(0.005)
        entry = ledger.join(request.request_id, force=True)
        assert entry is not None
        # The end is due one finish reserve before the deadline, and was found within a step of this loop.
        assert accepted.deadline_ms - 60 <= entry.now_ms < accepted.deadline_ms

    def test_a_failed_callback_brings_the_next_moment_forward(
        self, redis_client: Redis, ledger: RedisLedger, planned: Request
    ) -> None:
        ledger.join(planned.request_id, force=True)
        ledger.hasten(planned.request_id)
        assert actions_after(ledger, 0.1)[0] == Action("fused", planned.request_id)
        ledger.finish(planned.request_id, by="fusion", tail=TAIL, is_complete=True)
        ledger.hasten(planned.request_id)
        assert redis_client.zscore(MOMENTS, planned.request_id) is None


class TestFollowing:
    def test_a_flight_has_one_leader_and_is_over_with_its_end(
        self, redis_client: Redis, ledger: RedisLedger, callers: CallersLedger
    ) -> None:
        leader, follower = a_request(), a_request()
        for request in (leader, follower):
            callers.accept(request)
        assert plan(ledger, leader, "bm25", flight=FLIGHT + "x") == "planned"
        assert plan(ledger, follower, "bm25", flight=FLIGHT + "x") == "follows"
        ledger.finish(leader.request_id, by="fusion", tail=TAIL, is_complete=True)
        for request in (leader, follower):
            answer = the_result(redis_client, request)["result"]
            assert (answer["request_id"], answer["status"]) == (request.request_id, "complete")
        assert redis_client.exists(FLIGHT + "x") == 0
        assert [fields[b"by"] for fields in outbox(redis_client)] == [b"fusion", b"leader"]

    def test_a_follower_whose_leader_vanished_is_planned_anew(
        self, redis_client: Redis, ledger: RedisLedger, callers: CallersLedger
    ) -> None:
        leader, follower = a_request(timeout_s=0.3), a_request()
        for request in (leader, follower):
            callers.accept(request)
            plan(ledger, request, "bm25", finish_ms=10, flight=FLIGHT + "x")
        redis_client.delete(entry_key(leader.request_id))
        found = actions_after(ledger, 0.6)
        assert Action("retrieve", follower.request_id) in found
