"""A process is killed at one step of a request's life: the request still ends, and the next request is complete."""

from __future__ import annotations

from typing import Any

import pytest
from chorale_client import make_request
from chorale_client.keys import MOMENTS

from tests.support.faults.killed_callers import ask_and_be_killed
from tests.support.faults.lost_workers import ALL, BM25_GONE, FUSION_GONE, KILLED, places
from tests.support.faults.moments import end_without_fusion, join_without_one_branch
from tests.support.faults.observers import order_by, seen, seen_of, striking
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("caller", "place"),
    [
        ("chorale_client", "publisher.after_accept"),
        ("itself_a_planner", "planner.after_plan"),
    ],
)
def test_anybody_can_fetch_the_whole_answer_of_a_killed_caller(
    whole: RunningPipeline, caller: str, place: str
) -> None:
    expected = order_by(whole, ALL)
    request = make_request("ERR-4711", cache="bypass", timeout_s=20)

    assert ask_and_be_killed(whole, caller, place, request) == KILLED
    found = seen_of(whole, request)

    assert (found.status, found.documents) == ("complete", expected)


@pytest.mark.parametrize(
    "where",
    ["before_plan", "while_plan", "after_plan"],
)
def test_a_killed_planner_costs_nothing_once_there_is_another(whole: RunningPipeline, where: str) -> None:
    expected = order_by(whole, ALL)

    asked = striking(whole, f"planner.{where}", "kill", "chorale.retrieve", timeout_s=20)
    assert whole.processes["chorale.retrieve"].wait(30) == KILLED
    if where == "before_plan":
        whole.revive()

    found = asked.result(60)
    assert (found.status, found.documents) == ("complete", expected)


@pytest.mark.parametrize("where", places(BM25_GONE, {"after_start", "while_report"}))
def test_a_killed_branch_worker_costs_only_what_it_had_not_reported(
    whole: RunningPipeline, where: str
) -> None:
    status, missing, healthy = BM25_GONE[where]
    expected = order_by(whole, healthy)

    asked = striking(whole, f"branch.{where}", "kill", "chorale.bm25", timeout_s=20)
    if missing:
        join_without_one_branch(whole)
    found = asked.result(60)

    assert whole.processes["chorale.bm25"].wait(30) == KILLED
    assert (found.status, found.missing) == (status, missing)
    assert (found.documents, found.branches) == (expected, set(healthy))


def test_the_next_worker_does_a_part_whose_worker_was_killed_before_opening_it(
    whole: RunningPipeline,
) -> None:
    expected = order_by(whole, ALL)

    asked = striking(whole, "branch.before_start", "kill", "chorale.bm25", timeout_s=20)
    assert whole.processes["chorale.bm25"].wait(30) == KILLED
    whole.revive()

    found = asked.result(60)
    assert (found.status, found.documents) == ("complete", expected)


@pytest.mark.parametrize("where", places(FUSION_GONE, {"after_join", "while_finish"}))
def test_a_killed_fusion_worker_costs_no_hit(whole: RunningPipeline, where: str) -> None:
    status, missing = FUSION_GONE[where]
    expected = order_by(whole, ALL)

    asked = striking(whole, f"fusion.{where}", "kill", "chorale.fusion", timeout_s=20)
    if missing:
        end_without_fusion(whole)
    found = asked.result(60)

    assert whole.processes["chorale.fusion"].wait(30) == KILLED
    assert (found.status, found.missing) == (status, missing)
    assert (found.documents, found.branches) == (expected, set(ALL))


def test_another_fusion_follows_one_that_was_killed_after_taking_the_request(whole: RunningPipeline) -> None:
    expected = order_by(whole, ALL)
    whole.start("another", queue="chorale.fusion")
    whole.wait_ready(["another"])

    found = striking(whole, "fusion.after_join", "kill", timeout_s=20).result(60)

    assert (found.status, found.documents) == ("complete", expected)
    assert found.answer.took_ms < 15_000, "nobody waits for the one that is gone"
    whole.kill("another")


def test_a_fusion_that_is_killed_after_the_end_costs_only_the_cache_entry(whole: RunningPipeline) -> None:
    question: dict[str, Any] = {"question": "who pays for repairs?", "cache": "use", "timeout_s": 20}

    first = striking(whole, "fusion.after_finish", "kill", "chorale.fusion", **question).result(60)
    assert whole.processes["chorale.fusion"].wait(30) == KILLED
    whole.revive()
    again = seen(whole, **question)
    kept = seen(whole, **question)

    assert [one.status for one in (first, again, kept)] == ["complete"] * 3
    assert [one.answer.cached for one in (first, again, kept)] == [False, False, True]
    assert first.documents == again.documents == kept.documents


def test_with_every_process_killed_at_once_the_caller_ends_its_request(whole: RunningPipeline) -> None:
    expected = order_by(whole, ALL)

    asked = striking(whole, "branch.after_start", "hang", "chorale.bm25", timeout_s=3)
    for process in whole.processes.values():
        process.kill()
    # The request is sent while no process is alive to take it.
    later = make_request("ERR-4711", cache="bypass", timeout_s=30)
    whole.client().send("ERR-4711", request_id=later.request_id, cache="bypass", timeout_s=30)
    for process in whole.processes.values():
        assert process.wait(30) == KILLED
    # When the caller has ended the first request, only the later one is in flight.
    until(lambda: whole.redis.zcard(MOMENTS) == 1)
    whole.revive()

    found = asked.result(60)
    assert (found.status, found.missing, found.documents) == ("failed", [("fuse", "not_started")], [])
    found = seen_of(whole, later)
    assert (found.status, found.documents) == ("complete", expected)
