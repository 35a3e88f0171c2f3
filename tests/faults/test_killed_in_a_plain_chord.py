"""Processes killed where an unmodified `celery.chord` carries the messages: what the lean way does in one script is
several steps here, and between any two of them somebody can die."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.failpoints import PRELOAD
from tests.faults.gone import KILLED, assert_next_is_whole
from tests.faults.readers import order_by, striking
from tests.pipeline import RunningPipeline
from tests.redis_server import RedisServer

pytestmark = pytest.mark.slow

BOTH = ["bm25", "vector"]
QUEUES = ["chorale.retrieve", "chorale.bm25", "chorale.vector", "chorale.fusion"]


@pytest.fixture(scope="module")
def running() -> Iterator[RunningPipeline]:
    environment = {"CHORALE_LEAN": "false", "CHORALE_BREAKER_FAILURES": "0"}
    with (
        RedisServer() as server,
        RunningPipeline(
            server, queues=QUEUES, sweeper=True, preload=PRELOAD, environment=environment
        ) as pipeline,
    ):
        pipeline.index()
        assert not pipeline.app.fanout.is_lean
        yield pipeline


@pytest.fixture
def whole(running: RunningPipeline) -> Iterator[RunningPipeline]:
    """The pipeline; whoever was killed is back afterwards, and the next request is whole."""
    yield running
    running.revive()
    assert_next_is_whole(running, BOTH)


@pytest.mark.parametrize("where", ["while_plan", "after_plan"])
def test_a_chord_whose_planner_was_killed_before_it_published_is_published_by_the_sweeper(
    whole: RunningPipeline, where: str
) -> None:
    expected = order_by(whole, BOTH)

    asked = striking(whole, f"planner.{where}", "kill", "chorale.retrieve", branches=BOTH, timeout_s=20)

    assert whole.processes["chorale.retrieve"].wait(5) == KILLED
    found = asked.result(30)
    assert (found.status, found.documents, found.branches) == ("complete", expected, set(BOTH))
    assert found.answer.took_ms < 10_000, "nobody waits for the one that is gone"


@pytest.mark.parametrize("where", ["while_report", "after_report"])
def test_a_callback_whose_sender_was_killed_after_the_last_report_is_sent_by_the_sweeper(
    whole: RunningPipeline, where: str
) -> None:
    expected = order_by(whole, ["bm25"])

    # The only branch is the last to report.
    asked = striking(whole, f"branch.{where}", "kill", "chorale.bm25", branches=["bm25"], timeout_s=20)

    assert whole.processes["chorale.bm25"].wait(5) == KILLED
    found = asked.result(30)
    assert (found.status, found.documents) == ("complete", expected)
    assert found.answer.took_ms < 10_000, "nobody waits for the one that is gone"


def test_a_killed_branch_worker_costs_only_its_branch(whole: RunningPipeline) -> None:
    expected = order_by(whole, ["vector"])

    asked = striking(whole, "branch.after_start", "kill", "chorale.bm25", branches=BOTH, timeout_s=1)

    assert whole.processes["chorale.bm25"].wait(5) == KILLED
    found = asked.result(30)
    assert (found.status, found.missing) == ("degraded", [("search.bm25", "timeout")])
    assert (found.documents, found.branches) == (expected, {"vector"})
