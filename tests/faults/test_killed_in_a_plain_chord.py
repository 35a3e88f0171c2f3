"""Processes killed where an unmodified `celery.chord` carries the messages: what the lean way does in one script is
several steps here, and between any two of them somebody can die.  A fusion's own steps are those of the lean way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chorale_client import make_request

from tasks.request.retrieve import submit
from tests.support.faults.lost_workers import assert_next_is_whole, assert_was_killed
from tests.support.faults.observers import Seen, order_by, seen_of, striking
from tests.support.faults.serving import serving
from tests.support.pipelines.failpoints import PRELOAD, arm, fault_counts, wait_for_fault
from tests.support.pipelines.pipeline import RunningPipeline

BOTH = ["bm25", "vector"]
QUEUES = ["chorale.retrieve", "chorale.bm25", "chorale.vector", "chorale.fusion"]
STAND_BY = "sweeper that stands by"


@pytest.fixture(scope="module")
def running() -> Iterator[RunningPipeline]:
    # Without these threads, a killed sweeper process is the only sweeper.
    environment = {"CHORALE_LEAN": "false", "CHORALE_SWEEPER_THREADS": "false"}
    with serving(QUEUES, preload=PRELOAD, environment=environment) as pipeline:
        pipeline.start(STAND_BY)
        pipeline.wait_ready([STAND_BY])
        assert not pipeline.app.fanout.is_lean
        yield pipeline


@pytest.fixture
def whole(running: RunningPipeline) -> Iterator[RunningPipeline]:
    """Yields the pipeline; brings back killed processes afterwards, and checks that the next request is complete."""
    yield running
    running.revive()
    assert_next_is_whole(running, BOTH)


def is_complete_at_once(answer: Seen, documents: list[str]) -> None:
    assert (answer.status, answer.documents) == ("complete", documents)
    assert answer.answer.took_ms < 15_000, "nobody waits for the one that is gone"


# Where bm25 is the only branch, it is the last to report.
@pytest.mark.parametrize(
    ("process", "place", "branches"),
    [
        pytest.param("chorale.retrieve", "planner.while_plan", BOTH, id="while the planner plans"),
        pytest.param("chorale.retrieve", "planner.after_plan", BOTH, id="before the planner publishes"),
        pytest.param("chorale.bm25", "branch.while_report", ["bm25"], id="while the last part reports"),
        pytest.param("chorale.bm25", "branch.after_report", ["bm25"], id="before the callback is sent"),
    ],
)
def test_the_sweeper_sends_the_messages_whose_sender_was_killed_before_sending(
    whole: RunningPipeline, process: str, place: str, branches: list[str]
) -> None:
    expected = order_by(whole, branches)

    future = striking(whole, place, "kill", process, branches=branches, timeout_s=20)

    assert_was_killed(whole, process)
    is_complete_at_once(future.result(60), expected)


def test_another_sweeper_sends_a_callback_whose_sweeper_was_killed_before_sending(
    whole: RunningPipeline,
) -> None:
    expected = order_by(whole, ["bm25"])
    request = make_request("ERR-4711", branches=["bm25"], cache="bypass", timeout_s=20)
    before = fault_counts(whole.redis).get("sweeper.after_sweep", 0)
    arm(whole.redis, "branch.after_report", process="chorale.bm25", request_id=request.request_id)
    arm(whole.redis, "sweeper.after_sweep", request_id=request.request_id)

    submit(whole.resources, whole.app.fanout, request)

    killed = wait_for_fault(whole.redis, "sweeper.after_sweep", before=before)
    for process in ("chorale.bm25", killed):
        assert_was_killed(whole, process)
    is_complete_at_once(seen_of(whole, request), expected)
