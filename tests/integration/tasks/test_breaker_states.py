"""Breakers in a real Redis: opened by failures in a row, tried by one request, closed by an answer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from ledger import breakers as module
from ledger.breaker_outcomes import Outcome
from ledger.breakers import FEWEST_DURATIONS, Breaker, Breakers, BreakerTransition

OPEN_S = 60


@pytest.fixture
def breakers(redis_client: redis.Redis) -> Breakers:
    return Breakers(redis_client, failures=3, open_s=OPEN_S)


def failed(
    breakers: Breakers, request_id: str = "some", name: str = "vector"
) -> tuple[BreakerTransition, ...]:
    return breakers.count(request_id, [Outcome(name, "failed", "timeout")])


def answered(
    breakers: Breakers, request_id: str = "some", name: str = "vector"
) -> tuple[BreakerTransition, ...]:
    return breakers.count(request_id, [Outcome(name, "answered", answered_after_ms=7)])


def seen(breakers: Breakers) -> dict[str, Breaker]:
    return dict(breakers.read(["vector", "store:local"]).breakers)


def opened(breakers: Breakers) -> None:
    assert [failed(breakers) for _ in range(3)] == [(), (), (BreakerTransition("vector", is_open=True),)]


@pytest.fixture
def half_open(breakers: Breakers, redis_client: redis.Redis) -> Breakers:
    opened(breakers)
    time_is_over(redis_client, "vector")
    return breakers


def time_is_over(redis_client: redis.Redis, name: str) -> None:
    redis_client.hset(f"chorale:breaker:{name}", "open_until", 1)


def claims(breakers: Breakers, request_id: str, *, early: bool = False) -> bool:
    return breakers.claim(request_id, ["vector", "store:local"], timeout_s=60, early=early)


def test_failures_in_a_row_open_the_breaker_which_keeps_the_last_reason(breakers: Breakers) -> None:
    opened(breakers)
    (breaker,) = seen(breakers).values()
    assert (breaker.name, breaker.failures, breaker.reason, breaker.is_probed) == (
        "vector",
        3,
        "timeout",
        False,
    )
    assert breaker.open_until_ms - breaker.opened_at_ms == OPEN_S * 1000
    assert "3 failures in a row, the last: timeout" in str(breaker)


def test_an_answer_resets_the_count_of_failures_in_a_row(
    breakers: Breakers, redis_client: redis.Redis
) -> None:
    for _ in range(3):
        failed(breakers)
        failed(breakers)
        assert answered(breakers) == ()
    assert seen(breakers) == {}
    assert not redis_client.exists("chorale:breaker:vector"), "one that counts nothing has no key"


def test_a_breaker_that_is_turned_off_never_opens(redis_client: redis.Redis) -> None:
    never = Breakers(redis_client, failures=0, open_s=OPEN_S)
    assert {failed(never) for _ in range(10)} == {()}
    assert seen(never) == {}


def test_exactly_one_request_may_probe_an_open_breaker_early_and_nobody_else(breakers: Breakers) -> None:
    opened(breakers)
    assert not claims(breakers, "a")
    assert claims(breakers, "b", early=True)
    assert not claims(breakers, "c", early=True)


def test_exactly_one_of_many_probes_a_half_open_breaker(half_open: Breakers) -> None:
    with ThreadPoolExecutor(16) as threads:
        claimed = list(threads.map(lambda number: claims(half_open, f"request-{number}"), range(16)))
    assert sorted(claimed) == [False] * 15 + [True]


def test_the_probe_s_answer_closes_it(half_open: Breakers) -> None:
    assert claims(half_open, "probe")
    assert answered(half_open, "probe") == (BreakerTransition("vector", is_open=False),)
    assert claims(half_open, "anybody")
    assert claims(half_open, "somebody"), "what is closed needs no probe"


def test_the_probe_s_failure_opens_it_again_and_nobody_else_s_does(half_open: Breakers) -> None:
    assert claims(half_open, "probe")
    before = seen(half_open)["vector"]
    assert failed(half_open, "planned before it opened") == ()
    assert seen(half_open)["vector"].open_until_ms == before.open_until_ms

    assert failed(half_open, "probe") == (BreakerTransition("vector", is_open=True),)
    after = seen(half_open)["vector"]
    assert after.opened_at_ms == before.opened_at_ms, "it has not been closed since"
    assert after.open_until_ms > before.open_until_ms
    assert not claims(half_open, "another")


def test_a_probe_that_says_nothing_lets_the_next_one_try(half_open: Breakers) -> None:
    assert claims(half_open, "probe")
    half_open.count("another", [Outcome("vector", "says_nothing", "bad_index")])
    assert not claims(half_open, "another")
    half_open.count("probe", [Outcome("vector", "says_nothing", "bad_index")])
    assert claims(half_open, "another")


def test_the_claim_of_a_probe_that_never_ended_runs_out(
    half_open: Breakers, redis_client: redis.Redis
) -> None:
    def now_ms() -> int:
        seconds, microseconds = redis_client.time()
        return int(seconds) * 1000 + int(microseconds) // 1000

    before_ms = now_ms()
    assert half_open.claim("killed", ["vector"], timeout_s=60)
    assert not claims(half_open, "another")
    # Its own 60 s and a second more.
    claimed_until_ms = int(redis_client.hget("chorale:breaker:vector", "probe_until") or 0)
    assert before_ms + 61_000 <= claimed_until_ms <= now_ms() + 61_000
    redis_client.hset("chorale:breaker:vector", "probe_until", now_ms())
    assert claims(half_open, "another")


def test_a_branch_is_tried_only_if_its_store_may_be_tried_too(half_open: Breakers) -> None:
    for _ in range(3):
        failed(half_open, name="store:local")
    assert not claims(half_open, "a"), "its store is open"
    assert half_open.claim("b", ["vector"], timeout_s=60), "and nothing was claimed for it"


def test_one_request_tries_all_branches_of_a_store(breakers: Breakers, redis_client: redis.Redis) -> None:
    for name in ("store:local", "bm25", "vector"):
        for _ in range(3):
            failed(breakers, name=name)
        time_is_over(redis_client, name)
    assert breakers.claim("a", ["bm25", "store:local"], timeout_s=60)
    assert breakers.claim("a", ["vector", "store:local"], timeout_s=60)
    assert not breakers.claim("b", ["hyde", "store:local"], timeout_s=60)


def test_closed_breakers_are_not_looked_up_again_for_a_moment_and_open_ones_each_time(
    breakers: Breakers, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def script_calls() -> int:
        return int(redis_client.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0))

    monkeypatch.setattr(module, "ALL_WELL_FOR_S", 60)
    seen(breakers)
    before = script_calls()
    for _ in range(20):
        seen(breakers)
    assert script_calls() == before

    # Nobody is left out for longer than need be.
    another = Breakers(redis_client, failures=3, open_s=OPEN_S)
    opened(another)
    before = script_calls()
    for _ in range(5):
        assert seen(another)
    assert script_calls() - before == 5


def test_the_slowest_twentieth_is_known_once_enough_have_answered(breakers: Breakers) -> None:
    for ms in range(1, FEWEST_DURATIONS):
        breakers.count("x", [Outcome("bm25", "answered", answered_after_ms=ms)])
    assert breakers.p95_ms(["bm25", "vector"]) == {"bm25": None, "vector": None}


def test_the_95th_percentile_is_of_the_last_answers(breakers: Breakers, redis_client: redis.Redis) -> None:
    for ms in [9_000] * 50 + list(range(200, 0, -1)):
        breakers.count("x", [Outcome("bm25", "answered", answered_after_ms=ms)])
    # Of 1...200 the nearest rank of 95 % is the 190th.
    assert breakers.p95_ms(["bm25"]) == {"bm25": 190}
    assert redis_client.llen("chorale:durations:bm25") == 200


def test_keys_of_breakers_and_durations_expire(breakers: Breakers, redis_client: redis.Redis) -> None:
    opened(breakers)
    answered(breakers, name="bm25")
    for key in ("chorale:breaker:vector", "chorale:durations:bm25"):
        assert 0 < redis_client.pttl(key) <= 600_000


@pytest.mark.parametrize(
    ("reason", "is_closed"),
    [("not_started", True), ("late", True), ("timeout", True), ("unavailable", False), ("error", False)],
)
def test_a_worker_that_comes_back_closes_the_breaker_of_a_branch_that_nobody_answered_for(
    breakers: Breakers, reason: str, is_closed: bool
) -> None:
    for _ in range(3):
        breakers.count("some", [Outcome("vector", "failed", reason)])
    assert breakers.close_unserved(["vector", "bm25"]) == (["vector"] if is_closed else [])
    assert seen(breakers).keys() == (set() if is_closed else {"vector"})
