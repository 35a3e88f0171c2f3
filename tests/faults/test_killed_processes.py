"""A process is killed at one step of a request's life: the request still ends, and the next request is complete."""

from __future__ import annotations

from typing import Any

import pytest
from chorale_client import make_request
from chorale_client.keys import WAKEUPS

from ledger.breaker_outcomes import Outcome
from ledger.breakers import Breakers
from tests.support.faults.killed_callers import ask_and_be_killed
from tests.support.faults.lost_workers import (
    BM25_GONE,
    FUSION_GONE,
    KILLED,
    assert_was_killed,
    bm25_is_gone,
    fusion_is_gone,
    places,
)
from tests.support.faults.observers import order_by, seen, seen_of, striking
from tests.support.faults.serving import ALL
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("caller", "place"),
    [("chorale_client", "publisher.after_accept"), ("itself_a_planner", "planner.after_plan")],
)
def test_anybody_can_fetch_the_whole_answer_of_a_killed_caller(
    whole: RunningPipeline, caller: str, place: str
) -> None:
    expected = order_by(whole, ALL)
    request = make_request("ERR-4711", cache="bypass", timeout_s=20)

    assert ask_and_be_killed(whole, caller, place, request) == KILLED

    answer = seen_of(whole, request)
    assert (answer.status, answer.documents) == ("complete", expected)


@pytest.mark.parametrize(
    ("process", "place", "has_to_be_back"),
    [
        ("chorale.retrieve", "planner.before_plan", True),
        ("chorale.retrieve", "planner.while_plan", False),
        ("chorale.retrieve", "planner.after_plan", False),
        ("chorale.bm25", "branch.before_start", True),
    ],
)
def test_a_planner_or_a_worker_killed_before_its_part_costs_nothing_once_there_is_another(
    whole: RunningPipeline, process: str, place: str, has_to_be_back: bool
) -> None:
    expected = order_by(whole, ALL)

    future = striking(whole, place, "kill", process, timeout_s=20)
    assert_was_killed(whole, process)
    if has_to_be_back:
        whole.revive()

    answer = future.result(60)
    assert (answer.status, answer.documents) == ("complete", expected)


def test_a_worker_that_comes_back_closes_the_breaker_of_its_branch_alone(whole: RunningPipeline) -> None:
    branches = ["bm25", "vector"]
    breakers = Breakers(whole.redis, failures=1, open_s=600)
    whole.processes["chorale.bm25"].kill()
    assert_was_killed(whole, "chorale.bm25")
    breakers.count("some", [Outcome(branch, "failed", "not_started") for branch in branches])
    assert set(breakers.read(branches).breakers) == {"bm25", "vector"}

    whole.revive()

    until(lambda: set(breakers.read(branches).breakers) == {"vector"})
    breakers.count("other", [Outcome("vector", "answered")])


@pytest.mark.parametrize("where", places(BM25_GONE, {"after_start", "while_report"}))
def test_a_killed_branch_worker_costs_only_what_it_had_not_reported(
    whole: RunningPipeline, where: str
) -> None:
    bm25_is_gone(whole, where, "kill")
    assert_was_killed(whole, "chorale.bm25")


@pytest.mark.parametrize("where", places(FUSION_GONE, {"after_join", "while_finish"}))
def test_a_killed_fusion_worker_costs_no_hit(whole: RunningPipeline, where: str) -> None:
    fusion_is_gone(whole, where, "kill")
    assert_was_killed(whole, "chorale.fusion")


def test_another_fusion_follows_one_that_was_killed_after_taking_the_request(whole: RunningPipeline) -> None:
    expected = order_by(whole, ALL)
    whole.start("another", queue="chorale.fusion")
    whole.wait_ready(["another"])

    answer = striking(whole, "fusion.after_join", "kill", timeout_s=20).result(60)

    assert (answer.status, answer.documents) == ("complete", expected)
    assert answer.answer.took_ms < 15_000, "nobody waits for the one that is gone"
    whole.kill("another")


def test_a_fusion_that_is_killed_after_the_end_costs_only_the_cache_entry(whole: RunningPipeline) -> None:
    question: dict[str, Any] = {"question": "who pays for repairs?", "cache": "use", "timeout_s": 20}

    first = striking(whole, "fusion.after_finish", "kill", "chorale.fusion", **question).result(60)
    assert_was_killed(whole, "chorale.fusion")
    whole.revive()
    second = seen(whole, **question)
    # An answer is in the cache a moment after its request has ended.
    until(lambda: whole.client().retrieve(question["question"], timeout_s=20).cached)
    answers = [first, second, seen(whole, **question)]

    assert [answer.status for answer in answers] == ["complete"] * 3
    assert [answer.answer.cached for answer in answers] == [False, False, True]
    assert [answer.documents for answer in answers] == [first.documents] * 3


def test_with_every_process_killed_at_once_the_caller_ends_its_request(whole: RunningPipeline) -> None:
    expected = order_by(whole, ALL)

    future = striking(whole, "branch.after_start", "hang", "chorale.bm25", timeout_s=3)
    for process in whole.processes.values():
        process.kill()
    # The request is sent while no process is alive to take it.
    later = make_request("ERR-4711", cache="bypass", timeout_s=30)
    whole.client().send("ERR-4711", request_id=later.request_id, cache="bypass", timeout_s=30)
    for name in whole.processes:
        assert_was_killed(whole, name)
    # When the caller has ended the first request, only the later one is in flight.
    until(lambda: whole.redis.zcard(WAKEUPS) == 1)
    whole.revive()

    answer = future.result(60)
    assert (answer.status, answer.missing, answer.documents) == ("failed", [("fuse", "not_started")], [])
    answer = seen_of(whole, later)
    assert (answer.status, answer.documents) == ("complete", expected)
