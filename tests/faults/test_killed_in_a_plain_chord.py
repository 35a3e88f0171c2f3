"""Processes killed where an unmodified `celery.chord` carries the messages: what the lean way does in one script is
several steps here, and between any two of them somebody can die."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chorale_client import make_request

from tasks.request.retrieve import submit
from tests.support.faults.lost_workers import FUSION_GONE, KILLED, assert_next_is_whole
from tests.support.faults.moments import end_without_fusion, join_without_one_branch
from tests.support.faults.observers import asking, order_by, seen_of, striking, unchanged
from tests.support.pipelines.failpoints import PRELOAD, arm, taken, wait_taken
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer

BOTH = ["bm25", "vector"]
QUEUES = ["chorale.retrieve", "chorale.bm25", "chorale.vector", "chorale.fusion"]
STAND_BY = "sweeper that stands by"


@pytest.fixture(scope="module")
def running() -> Iterator[RunningPipeline]:
    environment = {
        "CHORALE_LEAN": "false",
        "CHORALE_BREAKER_FAILURES": "0",
        # Without these threads, a killed sweeper process is the only sweeper.
        "CHORALE_SWEEPER_THREADS": "false",
    }
    with (
        RedisServer() as server,
        RunningPipeline(
            server, queues=QUEUES, sweeper=True, preload=PRELOAD, environment=environment
        ) as pipeline,
    ):
        pipeline.start(STAND_BY)
        pipeline.wait_ready([STAND_BY])
        pipeline.index()
        assert not pipeline.app.fanout.is_lean
        yield pipeline


@pytest.fixture
def whole(running: RunningPipeline) -> Iterator[RunningPipeline]:
    """Yields the pipeline; brings back killed processes afterwards, and checks that the next request is complete."""
    yield running
    running.revive()
    assert_next_is_whole(running, BOTH)


@pytest.mark.parametrize("where", ["while_plan", "after_plan"])
def test_the_sweeper_publishes_a_chord_whose_planner_was_killed_before_publishing(
    whole: RunningPipeline, where: str
) -> None:
    expected = order_by(whole, BOTH)

    asked = striking(whole, f"planner.{where}", "kill", "chorale.retrieve", branches=BOTH, timeout_s=20)

    assert whole.processes["chorale.retrieve"].wait(30) == KILLED
    found = asked.result(60)
    assert (found.status, found.documents, found.branches) == ("complete", expected, set(BOTH))
    assert found.answer.took_ms < 15_000, "nobody waits for the one that is gone"


@pytest.mark.parametrize("where", ["while_report", "after_report"])
def test_the_sweeper_sends_a_callback_whose_sender_was_killed_after_the_last_report(
    whole: RunningPipeline, where: str
) -> None:
    expected = order_by(whole, ["bm25"])

    # The only branch is the last to report.
    asked = striking(whole, f"branch.{where}", "kill", "chorale.bm25", branches=["bm25"], timeout_s=20)

    assert whole.processes["chorale.bm25"].wait(30) == KILLED
    found = asked.result(60)
    assert (found.status, found.documents) == ("complete", expected)
    assert found.answer.took_ms < 15_000, "nobody waits for the one that is gone"


def test_a_killed_branch_worker_costs_only_its_branch(whole: RunningPipeline) -> None:
    expected = order_by(whole, ["vector"])

    asked = striking(whole, "branch.after_start", "kill", "chorale.bm25", branches=BOTH, timeout_s=20)
    join_without_one_branch(whole)

    assert whole.processes["chorale.bm25"].wait(30) == KILLED
    found = asked.result(60)
    assert (found.status, found.missing) == ("degraded", [("search.bm25", "timeout")])
    assert (found.documents, found.branches) == (expected, {"vector"})


@pytest.mark.parametrize("where", FUSION_GONE)
def test_a_killed_fusion_worker_costs_no_hit(whole: RunningPipeline, where: str) -> None:
    status, missing = FUSION_GONE[where]
    expected = order_by(whole, BOTH)

    asked = striking(whole, f"fusion.{where}", "kill", "chorale.fusion", branches=BOTH, timeout_s=20)
    if missing:
        end_without_fusion(whole)
    found = asked.result(60)

    assert whole.processes["chorale.fusion"].wait(30) == KILLED
    assert (found.status, found.missing) == (status, missing)
    assert (found.documents, found.branches) == (expected, set(BOTH))


def test_another_fusion_follows_one_that_was_killed_after_taking_the_request(whole: RunningPipeline) -> None:
    expected = order_by(whole, BOTH)
    whole.start("another", queue="chorale.fusion")
    whole.wait_ready(["another"])

    found = striking(whole, "fusion.after_join", "kill", branches=BOTH, timeout_s=20).result(60)

    whole.revive()
    whole.kill("another")
    assert (found.status, found.documents) == ("complete", expected)
    assert found.answer.took_ms < 15_000, "nobody waits for the one that is gone"


def test_another_sweeper_sends_a_callback_whose_sweeper_was_killed_before_sending(
    whole: RunningPipeline,
) -> None:
    expected = order_by(whole, ["bm25"])
    request = make_request("ERR-4711", branches=["bm25"], cache="bypass", timeout_s=20)
    before = taken(whole.redis).get("sweeper.after_sweep", 0)
    arm(whole.redis, "branch.after_report", process="chorale.bm25", request_id=request.request_id)
    arm(whole.redis, "sweeper.after_sweep", request_id=request.request_id)

    submit(whole.resources, whole.app.fanout, request)

    killed = wait_taken(whole.redis, "sweeper.after_sweep", before=before)
    assert whole.processes["chorale.bm25"].wait(30) == whole.processes[killed].wait(30) == KILLED
    found = seen_of(whole, request)
    assert (found.status, found.documents) == ("complete", expected)
    assert found.answer.took_ms < 15_000, "nobody waits for the one that is gone"


@pytest.mark.parametrize(
    ("where", "missing"),
    [("before_finish", [("fuse", "timeout")]), ("while_finish", [("fuse", "not_started")])],
)
def test_another_sweeper_ends_a_request_whose_sweeper_was_killed_while_ending_it(
    whole: RunningPipeline, where: str, missing: list[tuple[str, str]]
) -> None:
    expected = order_by(whole, BOTH)
    place = f"sweeper.{where}"
    before = taken(whole.redis).get(place, 0)
    whole.pause("chorale.fusion")
    arm(whole.redis, place, request_id=where)

    asked = asking(whole, request_id=where, branches=BOTH, timeout_s=20)
    end_without_fusion(whole)

    killed = wait_taken(whole.redis, place, before=before)
    assert whole.processes[killed].wait(30) == KILLED
    found = asked.result(60)
    assert (found.status, found.missing, found.documents) == ("degraded", missing, expected)
    with unchanged(whole, found):
        whole.revive()
        assert_next_is_whole(whole, BOTH)
