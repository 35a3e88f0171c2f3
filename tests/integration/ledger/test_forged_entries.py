"""A caller's login can write any entry and any moment: it stops no sweeper, no worker and no other request."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from chorale_client import Request
from chorale_client.keys import (
    FLIGHT,
    FOLLOWERS,
    GENERATION,
    MOMENTS,
    OUTBOX,
    OUTBOX_REFUSED,
    QUARANTINE,
    entry_key,
)
from chorale_client.ledger import CallersLedger
from redis import Redis

from ledger.protocol import Action, Chord, End, Part
from ledger.signing import Signer
from tests.support.ledger.requests import TAIL, a_request, failed, ok, plan
from tests.support.ledger.single_steps import SingleSteps

Fields = dict[Any, Any]

FORGED = "forged"
SOUND: Fields = {
    "state": "planned",
    "request": "{}",
    "fingerprint": "x",
    "head": '"request_id":"forged"',
    "accepted_at": "1",
    "deadline": "9000000000000",
    "answer_ttl": "1000",
    "plan": "{}",
    "left": "1",
    "join_at": "9000000000000",
    "finish_reserve": "60",
    "fusion_reserve": "160",
    "limit:bm25": "9000000000000",
    "resend:bm25": "1",
}


def entry(**changes: str | None) -> Fields:
    """A sound forged entry with these fields; None: without it."""
    return {name: value for name, value in {**SOUND, **changes}.items() if value is not None}


POISON: dict[str, Fields] = {
    "nothing but a state": {"state": "planned"},
    "no state": {"request": "{}"},
    "no deadline": entry(deadline=None),
    "no plan": entry(plan=None),
    "no request": entry(request=None),
    "no moment to join": entry(join_at=None),
    "a deadline that is no number": entry(deadline="soon"),
    "a deadline in hexadecimal": entry(deadline="0x10"),
    "a deadline without an end": entry(deadline="inf"),
    "a deadline that is nan": entry(deadline="nan"),
    "a deadline beyond all numbers": entry(deadline="9" * 400),
    "a fraction": entry(accepted_at="1.5"),
    "a count that is no number": entry(left="many"),
    "a branch's moment that is none": entry(**{"resend:bm25": "soon"}),
    "a lease that is none": entry(**{"started:bm25": "1", "lease:bm25": "long"}),
    "an answer that expires at once": entry(answer_ttl="0"),
    "a fusion without an end": entry(state="fusing"),
    "a follower without a leader": entry(state="following"),
    "attempts that are none": entry(state="accepted", retrieve_sent="x"),
}


@pytest.fixture
def ledger(redis_client: Redis) -> SingleSteps:
    return SingleSteps(redis_client)


@pytest.fixture
def callers(redis_client: Redis) -> CallersLedger:
    return CallersLedger(redis_client)


def forge(redis_client: Redis, fields: Fields, *, request_id: str = FORGED) -> None:
    redis_client.hset(entry_key(request_id), mapping=fields)
    redis_client.zadd(MOMENTS, {request_id: 0})


def due(redis_client: Redis, *request_ids: str) -> None:
    redis_client.zadd(MOMENTS, dict.fromkeys(request_ids, 1))


def goes_on(redis_client: Redis, ledger: SingleSteps, callers: CallersLedger) -> None:
    """The sweeper finds another request that is due."""
    other = callers.accept(a_request()).request_id
    due(redis_client, other)
    assert Action("retrieve", other) in ledger.sweep("sweeper").actions


class TestQuarantine:
    @pytest.mark.parametrize("fields", POISON.values(), ids=POISON)
    def test_a_malformed_entry_is_set_aside_and_the_others_are_swept(
        self, redis_client: Redis, ledger: SingleSteps, callers: CallersLedger, fields: Fields
    ) -> None:
        forge(redis_client, fields)
        goes_on(redis_client, ledger, callers)
        assert not redis_client.exists(entry_key(FORGED))
        assert redis_client.zscore(MOMENTS, FORGED) is None
        assert redis_client.hkeys(QUARANTINE) == [FORGED.encode()]
        assert 0 < redis_client.pttl(QUARANTINE) <= 86_400_000

    @pytest.mark.parametrize(
        "write",
        [
            lambda redis, key: redis.set(key, "x"),
            lambda redis, key: redis.lpush(key, "x"),
            lambda redis, key: redis.sadd(key, "x"),
        ],
        ids=["a string", "a list", "a set"],
    )
    def test_an_entry_of_another_type_is_set_aside(
        self,
        redis_client: Redis,
        ledger: SingleSteps,
        callers: CallersLedger,
        write: Callable[[Redis, str], object],
    ) -> None:
        write(redis_client, entry_key(FORGED))
        due(redis_client, FORGED)
        goes_on(redis_client, ledger, callers)
        assert redis_client.hgetall(QUARANTINE) == {FORGED.encode(): b"not a hash"}

    @pytest.mark.parametrize("name", [b"\xff\xfe", b"a b", b"x" * 129, b"", b"a:bm25", b"a\n"])
    def test_an_entry_under_an_invalid_id_is_set_aside(
        self, redis_client: Redis, ledger: SingleSteps, callers: CallersLedger, name: bytes
    ) -> None:
        redis_client.hset(entry_key("").encode() + name, mapping=SOUND)
        redis_client.zadd(MOMENTS, {name: 0})
        goes_on(redis_client, ledger, callers)
        assert redis_client.zscore(MOMENTS, name) is None
        assert redis_client.hvals(QUARANTINE) == [b"not an id"]

    def test_binary_names_of_fields_stop_no_sweeper(
        self, redis_client: Redis, ledger: SingleSteps, callers: CallersLedger
    ) -> None:
        forge(redis_client, entry(state="fusing", fusing_until="1"))
        odd: Any = {b"\xff": b"\xff", b"envelope:\xff": b"\xff", b"started:\xff": b"1"}
        redis_client.hset(entry_key(FORGED), mapping=odd)
        goes_on(redis_client, ledger, callers)
        assert ledger.join(FORGED, force=True) is not None

    def test_a_thousand_poisoned_moments_delay_nobody_for_long(
        self, redis_client: Redis, ledger: SingleSteps, callers: CallersLedger
    ) -> None:
        redis_client.zadd(MOMENTS, {f"nobody-{number}": 0 for number in range(1_000)})
        other = callers.accept(a_request()).request_id
        due(redis_client, other)
        found = [action for _ in range(20) for action in ledger.sweep("sweeper").actions]
        assert Action("retrieve", other) in found

    @pytest.mark.parametrize("moment", ["inf", "-inf", 1e300, -1e300])
    def test_a_moment_beyond_all_numbers_stops_no_sweeper(
        self, redis_client: Redis, ledger: SingleSteps, callers: CallersLedger, moment: float | str
    ) -> None:
        redis_client.zadd(MOMENTS, {"nobody": moment})
        found = ledger.sweep("sweeper")
        assert found.next_in_ms is None or found.next_in_ms > 0
        goes_on(redis_client, ledger, callers)

    def test_no_more_than_a_thousand_ids_are_kept(self, redis_client: Redis, ledger: SingleSteps) -> None:
        with redis_client.pipeline(transaction=False) as trip:
            for number in range(1_100):
                trip.hset(entry_key(f"forged-{number}"), "state", "planned")
                trip.zadd(MOMENTS, {f"forged-{number}": 0})
            trip.execute()
        while ledger.sweep("sweeper").actions:
            pass
        assert redis_client.hlen(QUARANTINE) == 1_000
        assert redis_client.keys(entry_key("*")) == []

    def test_a_request_that_workers_have_written_is_sound(
        self, redis_client: Redis, ledger: SingleSteps, callers: CallersLedger
    ) -> None:
        leader, follower, bare = a_request(), a_request(), a_request()
        for request in (leader, follower, bare):
            callers.accept(request)
        plan(ledger, leader, "bm25", "vector", flight=FLIGHT + "x", hedge_ms=50, decisive=["vector"])
        plan(ledger, follower, "bm25", flight=FLIGHT + "x")
        ledger.start(leader.request_id, "bm25")
        ledger.report(leader.request_id, "bm25", failed("bm25"))
        ledger.join(bare.request_id, force=True)
        for _ in range(3):
            due(redis_client, leader.request_id, follower.request_id, bare.request_id)
            ledger.sweep("sweeper")
            ledger.join(leader.request_id, force=True)
        assert not redis_client.exists(QUARANTINE)
        assert len(redis_client.keys(entry_key("*"))) == 3


class TestQueues:
    def test_an_entry_names_no_queue(
        self, redis_client: Redis, ledger: SingleSteps, callers: CallersLedger
    ) -> None:
        """A plan whose branches name a key of another type, and branches that the pipeline does not have."""
        redis_client.set("a-string", "x")
        branches = '{"branches": [{"name": "bm25", "kind": "x", "queue": "a-string"}, {"name": "other", "queue": "app"}]}'
        forge(redis_client, entry(plan=branches, **{"limit:other": "9000000000000", "resend:other": "1"}))
        assert [action for action in ledger.sweep("sweeper").actions if action.request_id == FORGED] == [
            Action("part", FORGED, "bm25")
        ]
        assert not redis_client.exists(QUARANTINE)
        goes_on(redis_client, ledger, callers)


class TestBatches:
    """A worker takes, reports and ends many requests in one script."""

    @pytest.mark.parametrize("fields", POISON.values(), ids=POISON)
    def test_a_malformed_entry_costs_no_other_message_of_a_batch(
        self, redis_client: Redis, ledger: SingleSteps, callers: CallersLedger, fields: Fields
    ) -> None:
        request = a_request()
        callers.accept(request)
        plan(ledger, request, "bm25")
        redis_client.hset(entry_key(FORGED), mapping=fields)
        tasks = (("chorale.search.bm25", f"{FORGED}:bm25"), ("chorale.fuse", FORGED))
        messages = [f'{{"headers": {{"task": "{task}", "id": "{task_id}"}}}}' for task, task_id in tasks]
        mine = f'{{"headers": {{"task": "chorale.search.bm25", "id": "{request.request_id}:bm25"}}}}'
        redis_client.lpush("together", *messages, mine)
        found = ledger.take(first=("together", "", ""), most={"together": 8})
        assert [one.started is not None for one in found][-1]
        reports = [(FORGED, ok("bm25"), None, b""), (request.request_id, ok("bm25"), None, b"callback")]
        assert ledger.report_all(reports)[-1] == "joined"
        ends = [End(FORGED, TAIL, False), End(request.request_id, TAIL, True)]
        assert ledger.finish_all(ends, by="fusion")[-1][0] is not None

    def test_a_part_that_was_sent_again_is_taken_alone(
        self, redis_client: Redis, ledger: SingleSteps, callers: CallersLedger
    ) -> None:
        """It may be the one that ended its worker."""
        requests = [a_request() for _ in range(3)]
        for request in requests:
            callers.accept(request)
            plan(ledger, request, "bm25")
            task_id = f"{request.request_id}:bm25"
            redis_client.lpush(
                "together", f'{{"headers": {{"task": "chorale.search.bm25", "id": "{task_id}"}}}}'
            )
        redis_client.hset(entry_key(requests[1].request_id), "resent:bm25", "1")
        ledger.take(first=("together", "", ""), most={"together": 8})
        assert redis_client.llen("together") == 2
        again = ledger.take(
            first=("together", "chorale.search.bm25", f"{requests[1].request_id}:bm25"), most={"together": 8}
        )
        assert len(again) == 1


class TestEnds:
    def test_an_entry_names_no_key_that_its_end_deletes(
        self, redis_client: Redis, ledger: SingleSteps
    ) -> None:
        redis_client.set(GENERATION + "docs", "7")
        forge(redis_client, entry(flight=GENERATION + "docs"), request_id="7")
        assert ledger.finish_all([End("7", TAIL, True)], by="fusion")[0][0] is not None
        assert redis_client.get(GENERATION + "docs") == b"7"

    def test_a_stream_that_takes_no_more_entries_keeps_no_request_from_its_end(
        self, redis_client: Redis, ledger: SingleSteps, callers: CallersLedger
    ) -> None:
        redis_client.xadd(OUTBOX, {"id": "x"}, id=f"{2**64 - 1}-{2**64 - 1}")
        request = a_request()
        callers.accept(request)
        assert ledger.finish(request.request_id, by="fusion", tail=TAIL, is_complete=True) is not None
        assert callers.result(request.request_id) is not None
        assert redis_client.get(OUTBOX_REFUSED) == b"1"

    def test_thousands_of_envelopes_keep_no_request_from_its_end(
        self, redis_client: Redis, ledger: SingleSteps
    ) -> None:
        forge(redis_client, {**SOUND, **{f"envelope:{number}": "{}" for number in range(9_000)}})
        assert ledger.finish_all([End(FORGED, TAIL, True)], by="fusion")[0][0] is not None
        assert redis_client.xlen(OUTBOX) == 1


class TestFollowers:
    def test_a_leader_s_caller_does_not_learn_who_follows(
        self, redis_client: Redis, ledger: SingleSteps, callers: CallersLedger
    ) -> None:
        leader, follower = self.in_one_flight(ledger, callers)
        told = str(redis_client.hgetall(entry_key(leader.request_id)))
        assert follower.request_id not in told
        assert redis_client.hkeys(FOLLOWERS + leader.request_id) == [follower.request_id.encode()]

    def test_a_leader_answers_no_follower_of_another_flight(
        self, redis_client: Redis, ledger: SingleSteps, callers: CallersLedger
    ) -> None:
        """A caller may write an older, signed state of its request back into the entry."""
        leader, follower = self.in_one_flight(ledger, callers)
        ledger.finish_all([End(leader.request_id, TAIL, True, flight=FLIGHT + "y")], by="fusion")
        assert callers.result(follower.request_id) is None
        assert callers.state(follower.request_id) == "accepted"

    def test_a_leader_that_never_ends_keeps_no_follower(
        self, redis_client: Redis, ledger: SingleSteps, callers: CallersLedger
    ) -> None:
        leader, follower = self.in_one_flight(ledger, callers)
        redis_client.zrem(MOMENTS, leader.request_id)
        found: list[Action] = []
        for _ in range(10):
            due(redis_client, follower.request_id)
            found += ledger.sweep("sweeper").actions
        assert Action("retrieve", follower.request_id) in found
        outcomes = []
        for _ in range(3):
            redis_client.hset(entry_key(follower.request_id), "state", "accepted")
            outcomes.append(plan(ledger, follower, "bm25", flight=FLIGHT + "x"))
        assert outcomes == ["follows", "planned", "planned"]

    def in_one_flight(self, ledger: SingleSteps, callers: CallersLedger) -> tuple[Request, Request]:
        """A leader and its follower."""
        leader, follower = a_request(), a_request()
        for request in (leader, follower):
            callers.accept(request)
            plan(ledger, request, "bm25", flight=FLIGHT + "x")
        return leader, follower

    @pytest.mark.parametrize(
        "fields", [{"flight": FLIGHT + "x"}, {"flight": FLIGHT + "x", "deadline": "soon"}, None]
    )
    def test_a_malformed_leader_is_not_followed(
        self,
        redis_client: Redis,
        ledger: SingleSteps,
        callers: CallersLedger,
        fields: Fields | None,
    ) -> None:
        redis_client.set(FLIGHT + "x", FORGED)
        if fields is None:
            redis_client.set(entry_key(FORGED), "x")
        else:
            redis_client.hset(entry_key(FORGED), mapping=fields)
        request = a_request()
        callers.accept(request)
        assert plan(ledger, request, "bm25", flight=FLIGHT + "x") == "planned"


class TestSignatures:
    def test_a_plan_and_an_envelope_of_a_worker_verify(
        self, ledger: SingleSteps, callers: CallersLedger
    ) -> None:
        request = self.planned(ledger, callers)
        started = ledger.start(request.request_id, "bm25")
        assert started is not None
        assert started.is_signed
        ledger.report_all([(request.request_id, ok("bm25"), started, b"")])
        snapshot = ledger.join(request.request_id, force=True)
        assert snapshot is not None
        assert (snapshot.is_signed, snapshot.forged) == (True, frozenset())

    @pytest.mark.parametrize("field", ["plan", "request", "mac", "flight"])
    def test_what_a_caller_changes_does_not_verify(
        self, redis_client: Redis, ledger: SingleSteps, callers: CallersLedger, field: str
    ) -> None:
        request = self.planned(ledger, callers)
        redis_client.hset(entry_key(request.request_id), field, '{"v": 1}')
        started = ledger.start(request.request_id, "bm25")
        snapshot = ledger.join(request.request_id, force=True)
        assert started is not None
        assert snapshot is not None
        assert (started.is_signed, snapshot.is_signed) == (False, False)

    @pytest.mark.parametrize(
        "how", ["by hand", "of another branch", "of another request", "its failure taken back"]
    )
    def test_an_envelope_that_no_worker_made_for_this_plan_is_forged(
        self, redis_client: Redis, ledger: SingleSteps, callers: CallersLedger, how: str
    ) -> None:
        request, other = self.planned(ledger, callers), self.planned(ledger, callers)
        for one in (request, other):
            for branch in ("bm25", "vector"):
                started = ledger.start(one.request_id, branch)
                ledger.report_all([(one.request_id, ok(branch), started, b"")])
        key = entry_key(request.request_id)
        mine: Any = redis_client.hgetall(key)
        theirs: Any = redis_client.hgetall(entry_key(other.request_id))
        given: dict[str, Any] = {
            "by hand": {"envelope:bm25": b'{"status": "ok"}'},
            "of another branch": {"envelope:bm25": mine[b"envelope:vector"], "mac:bm25": mine[b"mac:vector"]},
            "of another request": {
                "envelope:bm25": theirs[b"envelope:bm25"],
                "mac:bm25": theirs[b"mac:bm25"],
            },
            "its failure taken back": {"mac:bm25": b""},
        }
        redis_client.hset(key, mapping=given[how])
        snapshot = ledger.join(request.request_id, force=True)
        assert snapshot is not None
        assert (snapshot.is_signed, snapshot.forged) == (True, frozenset({"bm25"}))

    def test_a_report_by_a_process_that_did_not_start_the_part_is_not_forged(
        self, ledger: SingleSteps, callers: CallersLedger
    ) -> None:
        """A failure that Celery reports, and the answer of another program's task."""
        request = self.planned(ledger, callers)
        reports = [(request.request_id, one, None, b"") for one in (failed("bm25"), ok("vector"))]
        ledger.report_all(reports)
        snapshot = ledger.join(request.request_id, force=True)
        assert snapshot is not None
        assert (snapshot.is_signed, snapshot.forged) == (True, frozenset())

    def planned(self, ledger: SingleSteps, callers: CallersLedger) -> Request:
        request = a_request()
        callers.accept(request)
        parts = [Part(name, f"queue.{name}", 10_000, 5_000) for name in ("bm25", "vector")]
        text = request.model_dump_json().encode()
        assert ledger.plan(request.request_id, Chord(b"{}", parts, 60, 160, request=text)) == "planned"
        return request


class TestKeys:
    def test_all_processes_share_a_key_that_the_first_one_made(self, redis_client: Redis) -> None:
        first, second = Signer(redis_client), Signer(redis_client)
        mac = first.sign(b"a", b"b")
        assert second.verifies(mac, b"a", b"b")
        assert not second.verifies(mac, b"ab", b"")
        assert not second.verifies(b"", b"a", b"b")

    def test_a_key_comes_back_into_an_emptied_redis(self, redis_client: Redis) -> None:
        old = Signer(redis_client)
        mac = old.sign(b"a")
        redis_client.flushall()
        old.keep()
        assert Signer(redis_client).verifies(mac, b"a")

    def test_a_process_that_started_after_redis_was_emptied_is_believed(
        self, redis_client: Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        old = Signer(redis_client)
        before = old.sign(b"a")
        redis_client.flushall()
        new = Signer(redis_client)
        mac = new.sign(b"a")
        monkeypatch.setattr(time, "monotonic", lambda: 1e12)
        assert old.verifies(mac, b"a")
        assert old.verifies(before, b"a"), "signed a moment ago"
        assert new.verifies(old.sign(b"a"), b"a"), "it signs with the new key from now on"

    def test_given_keys_are_rotated_by_a_list_of_two(self, redis_client: Redis) -> None:
        old, both, new = (Signer(redis_client, keys) for keys in ([b"old"], [b"new", b"old"], [b"new"]))
        assert both.verifies(old.sign(b"a"), b"a")
        assert new.verifies(both.sign(b"a"), b"a")
        assert not new.verifies(old.sign(b"a"), b"a")
        assert redis_client.keys("*") == []

    def test_forged_signatures_make_no_process_ask_redis_again_and_again(self, redis_client: Redis) -> None:
        signer = Signer(redis_client)
        signer.keep()
        redis_client.config_resetstat()
        for _ in range(100):
            assert not signer.verifies(b"x" * 32, b"a")
        found: Any = redis_client.info("commandstats")
        assert found.get("cmdstat_get", {"calls": 0})["calls"] <= 1
