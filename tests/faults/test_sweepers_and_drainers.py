"""The sweeper or the drainer is killed or hangs at one step: another takes over and repeats nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chorale_client import make_request
from chorale_client.keys import OUTBOX
from chorale_client.request import Request

from tasks.request.retrieve import submit
from tests.support.faults.lost_workers import assert_next_is_whole
from tests.support.faults.moments import end_without_fusion
from tests.support.faults.observers import Seen, order_by, seen, seen_of, striking, unchanged
from tests.support.faults.serving import serving
from tests.support.pipelines.failpoints import PRELOAD, arm, disarm, fault_counts, wait_for_fault
from tests.support.pipelines.pipeline import RunningPipeline

ONE = ["bm25"]
QUEUES = ["chorale.retrieve", "chorale.bm25", "chorale.fusion", "chorale.index"]
SWEEPERS = {"sweeper", "chorale.index"}
"""The processes that sweep; neither of them has another part in a request."""

ONLY_THESE_SWEEP = """
import os
os.environ["CHORALE_SWEEPER_THREADS"] = str(os.environ["CHORALE_TEST_PROCESS"] == "chorale.index")
"""


@pytest.fixture(scope="module")
def running() -> Iterator[RunningPipeline]:
    environment = {"CHORALE_DRAIN": "false"}
    with serving(QUEUES, preload=PRELOAD + ONLY_THESE_SWEEP, environment=environment) as pipeline:
        pipeline.start("drainer")
        pipeline.wait_ready()
        yield pipeline


@pytest.fixture
def whole(running: RunningPipeline) -> Iterator[RunningPipeline]:
    """Yields the pipeline; brings back killed and hung processes afterwards, and checks that the next request is complete."""
    yield running
    disarm(running.redis)
    running.revive()
    assert_next_is_whole(running, ONE)


GONE = pytest.mark.parametrize("fault", ["kill", "hang"])


def goes_on(pipeline: RunningPipeline, answer: Seen, name: str) -> None:
    """Lets the hung sweeper resume, and waits until it sweeps again."""
    [other] = SWEEPERS - {name}
    with unchanged(pipeline, answer):
        pipeline.resume(name)
        pipeline.pause(other)
        known_to_sweepers_alone = a_request()
        pipeline.resources.callers_ledger.accept(known_to_sweepers_alone)
        assert pipeline.client().answer(known_to_sweepers_alone.request_id, wait_s=20).status == "complete"
        pipeline.resume(other)


def a_request() -> Request:
    return make_request("ERR-4711", branches=ONE, cache="bypass", timeout_s=20)


@GONE
def test_another_sweeper_sends_a_request_whose_sweeper_is_gone_before_sending(
    whole: RunningPipeline, fault: str
) -> None:
    expected = order_by(whole, ONE)
    request, place = a_request(), "sweeper.after_sweep"
    before = fault_counts(whole.redis).get(place, 0)
    arm(whole.redis, place, fault, request_id=request.request_id)

    # Its caller was killed before it sent a message.
    whole.resources.callers_ledger.accept(request)
    name = wait_for_fault(whole.redis, place, before=before)
    answer = seen_of(whole, request)

    assert name in SWEEPERS
    assert (answer.status, answer.documents) == ("complete", expected)
    assert answer.answer.took_ms < 15_000, "another takes over long before the deadline"
    if fault == "hang":
        goes_on(whole, answer, name)


@GONE
@pytest.mark.parametrize("where", ["before_finish", "while_finish"])
def test_another_sweeper_ends_a_request_whose_sweeper_is_gone_while_ending_it(
    whole: RunningPipeline, fault: str, where: str
) -> None:
    expected = order_by(whole, ONE)
    request, place = a_request(), f"sweeper.{where}"
    before = fault_counts(whole.redis).get(place, 0)
    arm(whole.redis, place, fault, request_id=request.request_id)
    whole.pause("chorale.fusion")

    submit(whole.resources, whole.app.fanout, request)
    end_without_fusion(whole)
    name = wait_for_fault(whole.redis, place, before=before)
    answer = seen_of(whole, request)

    assert name in SWEEPERS
    assert (answer.status, answer.documents) == ("degraded", expected)
    assert answer.missing == [("fuse", "not_started")]
    whole.resume("chorale.fusion")
    if fault == "hang":
        goes_on(whole, answer, name)


def test_entries_that_a_hung_drainer_had_written_are_audited_once(whole: RunningPipeline) -> None:
    future = striking(whole, "drainer.after_commit", "hang", "drainer", branches=ONE, timeout_s=20)
    assert whole.redis.xlen(OUTBOX) > 0
    whole.start("drainer of another machine")

    answer = future.result(60)
    assert answer.status == "complete"
    with unchanged(whole, answer):
        whole.resume("drainer")
        whole.kill("drainer of another machine")
        assert seen(whole, branches=ONE, timeout_s=20).status == "complete"


def test_entries_that_a_hung_drainer_had_not_written_are_audited_once_when_it_resumes(
    whole: RunningPipeline,
) -> None:
    """SQLite is locked while the drainer hangs; requests still end."""
    future = striking(whole, "drainer.before_commit", "hang", "drainer", branches=ONE, timeout_s=20)
    assert_next_is_whole(whole, ONE)
    assert not future.done()
    whole.resume("drainer")

    assert future.result(60).status == "complete"
