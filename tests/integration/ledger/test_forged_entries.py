"""A caller's login can write any entry and any moment: it stops no sweeper, no worker and no other request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from chorale_client import Request
from chorale_client.keys import (
    COALESCING,
    FOLLOWERS,
    GENERATION,
    OUTBOX,
    OUTBOX_REFUSED,
    QUARANTINE,
    WAKEUPS,
    entry_key,
)
from redis import Redis

from ledger.protocol import Action, End
from tests.integration.ledger.real import Real
from tests.support.ledger.requests import BODY, failed, ok, plan

Fields = dict[Any, Any]

FORGED, X = "forged", COALESCING + "x"
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
poisoned = pytest.mark.parametrize("fields", POISON.values(), ids=POISON)


def forge(real: Real, fields: Fields, *, request_id: str = FORGED) -> None:
    real.redis.hset(entry_key(request_id), mapping=fields)
    real.redis.zadd(WAKEUPS, {request_id: 0})


def due(real: Real, *requests: Request) -> None:
    real.redis.zadd(WAKEUPS, {request.request_id: 1 for request in requests})


def goes_on(real: Real) -> None:
    """The sweeper finds another request that is due."""
    other = real.accepted()
    due(real, other)
    assert Action("retrieve", other.request_id) in real.ledger.sweep("sweeper").actions


# Set aside


@poisoned
def test_a_malformed_entry_is_set_aside_and_the_others_are_swept(real: Real, fields: Fields) -> None:
    forge(real, fields)
    goes_on(real)
    assert not real.redis.exists(entry_key(FORGED))
    assert real.redis.zscore(WAKEUPS, FORGED) is None
    assert real.redis.hkeys(QUARANTINE) == [FORGED.encode()]
    assert 0 < real.redis.pttl(QUARANTINE) <= 86_400_000


@pytest.mark.parametrize("write", [Redis.set, Redis.lpush, Redis.sadd], ids=["a string", "a list", "a set"])
def test_an_entry_of_another_type_is_set_aside(real: Real, write: Callable[..., object]) -> None:
    write(real.redis, entry_key(FORGED), "x")
    real.redis.zadd(WAKEUPS, {FORGED: 1})
    goes_on(real)
    assert real.redis.hgetall(QUARANTINE) == {FORGED.encode(): b"not a hash"}


@pytest.mark.parametrize("name", [b"\xff\xfe", b"a b", b"x" * 129, b"", b"a:bm25", b"a\n"])
def test_an_entry_under_an_invalid_id_is_set_aside(real: Real, name: bytes) -> None:
    real.redis.hset(entry_key("").encode() + name, mapping=SOUND)
    real.redis.zadd(WAKEUPS, {name: 0})
    goes_on(real)
    assert real.redis.zscore(WAKEUPS, name) is None
    assert real.redis.hvals(QUARANTINE) == [b"not an id"]


def test_binary_names_of_fields_stop_no_sweeper(real: Real) -> None:
    odd: Fields = {b"\xff": b"\xff", b"result:\xff": b"\xff", b"started:\xff": b"1"}
    forge(real, entry(state="fusing", fusing_until="1") | odd)
    goes_on(real)
    assert real.ledger.join(FORGED, force=True) is not None


def test_a_thousand_poisoned_moments_delay_nobody_for_long(real: Real) -> None:
    real.redis.zadd(WAKEUPS, {f"nobody-{number}": 0 for number in range(1_000)})
    other = real.accepted()
    due(real, other)
    actions = [action for _ in range(20) for action in real.ledger.sweep("sweeper").actions]
    assert Action("retrieve", other.request_id) in actions


@pytest.mark.parametrize("moment", ["inf", "-inf", 1e300, -1e300])
def test_a_moment_beyond_all_numbers_stops_no_sweeper(real: Real, moment: float | str) -> None:
    real.redis.zadd(WAKEUPS, {"nobody": moment})
    swept = real.ledger.sweep("sweeper")
    assert swept.next_in_ms is None or swept.next_in_ms > 0
    goes_on(real)


def test_no_more_than_a_thousand_ids_are_kept(real: Real) -> None:
    forged = [f"forged-{number}" for number in range(1_100)]
    with real.redis.pipeline() as pipeline:
        for request_id in forged:
            pipeline.hset(entry_key(request_id), mapping={"state": "planned"})
        pipeline.zadd(WAKEUPS, dict.fromkeys(forged, 0))
        pipeline.execute()
    while real.ledger.sweep("sweeper").actions:
        pass
    assert real.redis.hlen(QUARANTINE) == 1_000
    assert real.redis.keys(entry_key("*")) == []


def test_a_request_that_workers_have_written_is_sound(real: Real) -> None:
    leader = real.accepted("bm25", "vector", coalescing_key=X, hedge_ms=50, decisive=["vector"])
    follower, bare = real.accepted("bm25", coalescing_key=X), real.accepted()
    real.ledger.start(leader.request_id, "bm25")
    real.ledger.report(leader.request_id, "bm25", failed("bm25"))
    real.snapshot(bare)
    for _ in range(3):
        due(real, leader, follower, bare)
        real.ledger.sweep("sweeper")
        real.ledger.join(leader.request_id, force=True)
    assert not real.redis.exists(QUARANTINE)
    assert len(real.redis.keys(entry_key("*"))) == 3


# What an entry names


def test_an_entry_names_no_queue(real: Real) -> None:
    """A plan whose branches name a key of another type, and branches that the pipeline does not have."""
    real.redis.set("a-string", "x")
    branches = '{"branches": [{"name": "bm25", "kind": "x", "queue": "a-string"}, {"name": "other", "queue": "app"}]}'
    forge(real, entry(plan=branches, **{"limit:other": "9000000000000", "resend:other": "1"}))
    actions = [one for one in real.ledger.sweep("sweeper").actions if one.request_id == FORGED]
    assert actions == [Action("part", FORGED, "bm25")]
    assert not real.redis.exists(QUARANTINE)
    goes_on(real)


def test_an_entry_names_no_key_that_its_end_deletes(real: Real) -> None:
    real.redis.set(GENERATION + "docs", "7")
    forge(real, entry(coalescing_key=GENERATION + "docs"), request_id="7")
    assert real.ledger.finish_all([End("7", BODY, True)], by="fusion")[0][0] is not None
    assert real.redis.get(GENERATION + "docs") == b"7"


def test_a_stream_that_takes_no_more_entries_keeps_no_request_from_its_end(real: Real) -> None:
    real.redis.xadd(OUTBOX, {"id": "x"}, id=f"{2**64 - 1}-{2**64 - 1}")
    request = real.accepted()
    assert real.finish(request) is not None
    assert real.callers.result(request.request_id) is not None
    assert real.redis.get(OUTBOX_REFUSED) == b"1"


def test_thousands_of_branch_results_keep_no_request_from_its_end(real: Real) -> None:
    forge(real, {**SOUND, **{f"result:{number}": "{}" for number in range(9_000)}})
    assert real.ledger.finish_all([End(FORGED, BODY, True)], by="fusion")[0][0] is not None
    assert real.redis.xlen(OUTBOX) == 1


# A worker takes, reports and ends many requests in one script


SEARCH = "chorale.search.bm25"


@poisoned
def test_a_malformed_entry_costs_no_other_message_of_a_batch(real: Real, fields: Fields) -> None:
    mine = real.accepted("bm25").request_id
    real.redis.hset(entry_key(FORGED), mapping=fields)
    real.wait_together((SEARCH, f"{FORGED}:bm25"), ("chorale.fuse", FORGED), (SEARCH, f"{mine}:bm25"))
    messages = real.ledger.take(first=("together", "", ""), most={"together": 8})
    assert messages[-1].started is not None
    reports = [(FORGED, ok("bm25"), None, b""), (mine, ok("bm25"), None, b"callback")]
    assert real.ledger.report_all(reports)[-1] == "joined"
    ends = [End(FORGED, BODY, False), End(mine, BODY, True)]
    assert real.ledger.finish_all(ends, by="fusion")[-1][0] is not None


def test_a_part_that_was_sent_again_is_taken_alone(real: Real) -> None:
    """A message that was sent again may have ended its worker."""
    ids = [real.accepted("bm25").request_id for _ in range(3)]
    real.wait_together(*((SEARCH, f"{request_id}:bm25") for request_id in ids))
    real.redis.hset(entry_key(ids[1]), "resent:bm25", "1")
    real.ledger.take(first=("together", "", ""), most={"together": 8})
    assert real.redis.llen("together") == 2
    again = real.ledger.take(first=("together", SEARCH, f"{ids[1]}:bm25"), most={"together": 8})
    assert len(again) == 1


# Followers


@pytest.fixture
def coalesced(real: Real) -> tuple[Request, Request]:
    """A leader and its follower."""
    return real.accepted("bm25", coalescing_key=X), real.accepted("bm25", coalescing_key=X)


def test_a_leader_s_caller_does_not_learn_who_follows(real: Real, coalesced: tuple[Request, Request]) -> None:
    leader, follower = coalesced
    assert follower.request_id not in str(real.redis.hgetall(entry_key(leader.request_id)))
    assert real.redis.hkeys(FOLLOWERS + leader.request_id) == [follower.request_id.encode()]


def test_a_leader_answers_no_follower_of_another_coalescing_key(
    real: Real, coalesced: tuple[Request, Request]
) -> None:
    """A caller may write an older, signed state of its request back into the entry."""
    leader, follower = coalesced
    real.ledger.finish_all([End(leader.request_id, BODY, True, coalescing_key=COALESCING + "y")], by="fusion")
    assert real.callers.result(follower.request_id) is None
    assert real.callers.state(follower.request_id) == "accepted"


def test_a_leader_that_never_ends_keeps_no_follower(real: Real, coalesced: tuple[Request, Request]) -> None:
    leader, follower = coalesced
    real.redis.zrem(WAKEUPS, leader.request_id)
    actions: list[Action] = []
    for _ in range(10):
        due(real, follower)
        actions += real.ledger.sweep("sweeper").actions
    assert Action("retrieve", follower.request_id) in actions
    outcomes = []
    for _ in range(3):
        real.redis.hset(entry_key(follower.request_id), "state", "accepted")
        outcomes.append(plan(real.ledger, follower, "bm25", coalescing_key=X))
    assert outcomes == ["follows", "planned", "planned"]


@pytest.mark.parametrize("fields", [{"coalescing_key": X}, {"coalescing_key": X, "deadline": "soon"}, None])
def test_a_malformed_leader_is_not_followed(real: Real, fields: Fields | None) -> None:
    real.redis.set(X, FORGED)
    if fields is None:
        real.redis.set(entry_key(FORGED), "x")
    else:
        real.redis.hset(entry_key(FORGED), mapping=fields)
    assert plan(real.ledger, real.accepted(), "bm25", coalescing_key=X) == "planned"
