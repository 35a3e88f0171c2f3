"""A process hangs (SIGSTOP) at one step of a request's life: the request ends without it, and what it does when it
goes on changes nothing any more."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from chorale_client import make_request
from chorale_client.keys import ENTRY, WAKEUPS
from chorale_client.protocol_constants import PROTOCOL

from tests.support.faults.lost_workers import (
    BM25_GONE,
    FUSION_GONE,
    assert_next_is_whole,
    bm25_is_gone,
    fusion_is_gone,
    places,
)
from tests.support.faults.moments import in_flight, join_without_one_branch
from tests.support.faults.observers import Seen, mentions, order_by, striking, unchanged
from tests.support.faults.serving import ALL
from tests.support.pipelines.failpoints import arm, fault_counts, wait_for_fault
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until


def goes_on(pipeline: RunningPipeline, answer: Seen, *names: str) -> None:
    """They go on where they hung, up to the next request, which is behind all that they had in hand."""
    with unchanged(pipeline, answer):
        for name in names:
            pipeline.resume(name)
        assert_next_is_whole(pipeline)


@pytest.mark.parametrize("where", places(BM25_GONE, {"before_report"}))
def test_a_hung_branch_worker_costs_only_what_it_had_not_reported(whole: RunningPipeline, where: str) -> None:
    goes_on(whole, bm25_is_gone(whole, where, "hang"), "chorale.bm25")


@pytest.mark.parametrize("where", FUSION_GONE)
def test_a_hung_fusion_worker_costs_no_hit(whole: RunningPipeline, where: str) -> None:
    goes_on(whole, fusion_is_gone(whole, where, "hang"), "chorale.fusion")


def test_a_fusion_worker_that_needs_longer_than_all_its_leases_still_gives_the_whole_answer(
    whole: RunningPipeline,
) -> None:
    expected = order_by(whole, ALL)
    future = striking(whole, "fusion.after_join", "hang", "chorale.fusion", timeout_s=20)
    request_id = in_flight(whole)
    deadline = int(whole.redis.hget(ENTRY + request_id, "deadline") or 0)
    # The sweeper has sent the last callback, and waits for the end of the request.
    ends_at = deadline - PROTOCOL.longest_finish_reserve_ms
    until(lambda: future.done() or whole.redis.zscore(WAKEUPS, request_id) == ends_at)
    whole.resume("chorale.fusion")

    answer = future.result(60)
    assert (answer.status, answer.missing, answer.documents) == ("complete", [], expected)


@pytest.mark.parametrize("where", ["before_plan", "while_plan", "after_plan"])
def test_a_planner_that_hangs_for_good_costs_nothing(whole: RunningPipeline, where: str) -> None:
    """Before the plan the sweeper plans in its place."""
    expected = order_by(whole, ALL)

    answer = striking(whole, f"planner.{where}", "hang", "chorale.retrieve", timeout_s=20).result(60)

    assert (answer.status, answer.missing, answer.documents) == ("complete", [], expected)
    goes_on(whole, answer, "chorale.retrieve")


def test_a_planner_that_goes_on_in_time_costs_nothing(whole: RunningPipeline) -> None:
    expected = order_by(whole, ALL)

    future = striking(whole, "planner.before_plan", "hang", "chorale.retrieve", timeout_s=20)
    # The sweeper sends another message meanwhile, and that is planned no second time.  Half a second later it plans by itself.
    entries = f"{ENTRY}*"
    until(
        lambda: (
            future.done()
            or any(whole.redis.hexists(key, "retrieve_sent") for key in whole.redis.scan_iter(entries))
        )
    )
    whole.resume("chorale.retrieve")

    answer = future.result(60)
    assert (answer.status, answer.documents) == ("complete", expected)


def test_with_every_process_hung_at_once_the_caller_ends_its_request(whole: RunningPipeline) -> None:
    future = striking(whole, "branch.after_start", "hang", "chorale.bm25", timeout_s=3)
    for name in whole.processes:
        whole.pause(name)
    until(lambda: not whole.redis.exists(WAKEUPS))
    # It drains too: without it there is no audit row to read.
    whole.resume("sweeper")

    answer = future.result(60)
    assert (answer.status, answer.missing, answer.documents) == ("failed", [("fuse", "not_started")], [])
    goes_on(whole, answer, *whole.processes)


def test_a_request_whose_workers_all_hung_leaves_nothing_after_its_ttl(whole: RunningPipeline) -> None:
    request = make_request("ERR-4711", cache="bypass", timeout_s=20)
    # A worker may still count what an ended request took; once a second one has ended, it has counted the first.
    assert_next_is_whole(whole)
    assert_next_is_whole(whole)
    keys, channels = lasting_keys(whole), set(whole.redis.pubsub_channels())
    hung = {
        "chorale.retrieve": "planner.after_plan",
        "chorale.bm25": "branch.after_start",
        "chorale.fusion": "fusion.after_join",
    }
    for process, place in hung.items():
        arm(whole.redis, place, "hang", process=process, request_id=request.request_id)
    reports = fault_counts(whole.redis).get("branch.before_report", 0)
    arm(whole.redis, "branch.before_report", "nothing", process="chorale.bm25", request_id=request.request_id)

    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(whole.client(answer_ttl_s=2).ask, request)
        join_without_one_branch(whole, begun="bm25")
        answer = future.result(60)
    reasons = {(missing.where, missing.reason) for missing in answer.degraded}
    assert reasons == {("search.bm25", "timeout"), ("fuse", "timeout")}
    for process in hung:
        whole.resume(process)
    wait_for_fault(whole.redis, "branch.before_report", before=reports)
    # The worker reports before it takes the next message, so its late report is in Redis once the next part is done.
    assert_next_is_whole(whole)

    until(lambda: not mentions(whole.redis, request.request_id))
    until(lambda: set(whole.redis.pubsub_channels()) == channels)
    until(lambda: lasting_keys(whole) == keys)


def lasting_keys(pipeline: RunningPipeline) -> set[bytes]:
    """Without the answers of other requests, and what comes and goes by itself."""
    temporary = (b"celery-task", b"test:", b"chorale:sweeper", b"chorale:heartbeat:", b"chorale:overload")
    return {key for key in pipeline.redis.scan_iter() if not key.startswith(temporary)}
