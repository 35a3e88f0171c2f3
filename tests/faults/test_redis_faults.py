"""Redis is killed, emptied, paused or full while requests are in flight: the requests end on time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import pytest
from chorale_client import Answer, Chorale, ServiceUnavailable, UnknownRequest, make_request
from chorale_client.keys import ENTRY, GENERATION
from chorale_client.request import Request
from redis.exceptions import RedisError

from tests.support.faults.moments import join_without_one_branch
from tests.support.faults.observers import asking, audited, order_by, seen
from tests.support.faults.serving import ALL, is_as_before
from tests.support.faults.waiting import (
    ended_late_with_the_hits_of_bm25_and_hyde,
    is_whole,
    one_branch_is_missing,
)
from tests.support.pipelines.failpoints import arm, disarm, fault_counts, wait_for_fault
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until


@pytest.fixture
def whole(running: RunningPipeline) -> Iterator[RunningPipeline]:
    """Yields the pipeline; checks afterwards that every process reconnects and the next request is complete."""
    yield running
    with suppress(RedisError):
        running.redis.config_set("maxmemory", "0")
    disarm(running.redis)
    for name in running.processes:
        running.resume(name)
    is_as_before(running)


def ask_in_a_thread(client: Chorale, request: Request) -> Future[Answer]:
    executor = ThreadPoolExecutor(1)
    future = executor.submit(client.ask, request)
    executor.shutdown(wait=False)
    return future


def killed_and_restarted(pipeline: RunningPipeline) -> None:
    pipeline.server.kill()
    pipeline.server.start()
    pipeline.resume("chorale.vector")


def paused_for_a_second(pipeline: RunningPipeline) -> None:
    pipeline.server.pause()
    pipeline.resume("chorale.vector")
    time.sleep(1)
    pipeline.server.resume()


@pytest.mark.parametrize("fault", [killed_and_restarted, paused_for_a_second])
def test_a_redis_that_is_away_during_a_request_loses_nothing(
    whole: RunningPipeline, fault: Callable[[RunningPipeline], None]
) -> None:
    expected = order_by(whole, ALL)
    whole.pause("chorale.vector")
    future = asking(whole, request_id=fault.__name__, timeout_s=20)
    one_branch_is_missing(whole, fault.__name__)

    fault(whole)

    answer = future.result(60)
    assert (answer.status, answer.missing) == ("complete", [])
    assert (answer.documents, answer.branches) == (expected, set(ALL))


def test_a_branch_that_finished_while_redis_was_away_reports_when_redis_is_back(
    whole: RunningPipeline,
) -> None:
    expected = order_by(whole, ALL)
    before = fault_counts(whole.redis).get("branch.before_report", 0)
    arm(whole.redis, "branch.before_report", "hang", process="chorale.vector")
    future = asking(whole, request_id="away", timeout_s=20)
    wait_for_fault(whole.redis, "branch.before_report", before=before)
    one_branch_is_missing(whole, "away")

    whole.server.kill()
    whole.resume("chorale.vector")
    time.sleep(0.3)
    whole.server.start()

    answer = future.result(60)
    assert (answer.status, answer.missing, answer.documents) == ("complete", [], expected)


def test_a_redis_paused_beyond_the_deadline_holds_no_caller(whole: RunningPipeline) -> None:
    """This holds for callers that wait and for callers that begin during the pause; accepted requests end afterwards."""
    warm, cold = whole.client(), whole.client()
    warm.retrieve("bread", cache="bypass", timeout_s=20)
    whole.pause("chorale.vector")
    waiting = ask_in_a_thread(
        warm, make_request("ERR-4711", request_id="waiting", cache="bypass", timeout_s=3)
    )
    one_branch_is_missing(whole, "waiting")
    whole.server.pause()
    try:
        early = ask_in_a_thread(warm, make_request("ERR-4711", request_id="early", timeout_s=0.5))
        first = ask_in_a_thread(cold, make_request("ERR-4711", request_id="first", timeout_s=0.5))
        # Redis answers nobody until all three have their error.
        for future in (waiting, early, first):
            with pytest.raises(ServiceUnavailable, match="Redis does not answer"):
                future.result(60)
        assert "waiting was accepted" in str(waiting.exception())
    finally:
        whole.server.resume()

    answer = whole.client().answer("waiting", wait_s=30)

    ended_late_with_the_hits_of_bm25_and_hyde(answer)
    assert audited(whole, "waiting").status == "degraded"


def test_a_full_redis_ends_the_requests_in_flight_and_refuses_new_ones(whole: RunningPipeline) -> None:
    expected = order_by(whole, ["bm25", "hyde"])
    whole.pause("chorale.vector")
    future = asking(whole, request_id="full", timeout_s=20)
    join_without_one_branch(whole, "full", in_ms=1_000)

    whole.redis.config_set("maxmemory", "1mb")
    whole.resume("chorale.vector")
    with pytest.raises(ServiceUnavailable, match=r"Redis refuses: .*maxmemory"):
        whole.client().retrieve("ERR-4711", request_id="refused", timeout_s=2)

    answer = future.result(60)
    assert answer.missing == [("search.vector", "not_started")]
    assert (answer.documents, answer.branches) == (expected, {"bm25", "hyde"})
    with pytest.raises(UnknownRequest):
        whole.client().answer("refused")

    whole.redis.config_set("maxmemory", "0")
    assert seen(whole, timeout_s=20).status == "complete"


def test_the_waiting_caller_enters_its_request_again_after_redis_was_emptied(whole: RunningPipeline) -> None:
    """The audit has one end."""
    whole.pause("chorale.vector")
    future = ask_in_a_thread(
        whole.client(), make_request("ERR-4711", request_id="emptied", cache="bypass", timeout_s=20)
    )
    one_branch_is_missing(whole, "emptied")

    whole.server.kill()
    whole.server.forget()
    whole.server.start()
    join_without_one_branch(whole, "emptied")
    answer = future.result(60)

    assert (answer.status, [missing.where for missing in answer.degraded]) == ("degraded", ["search.vector"])
    assert whole.client().answer("emptied") == answer
    assert audited(whole, "emptied").status == "degraded"
    assert not whole.redis.exists(ENTRY + "emptied")


def test_answers_are_cached_again_after_redis_was_emptied(whole: RunningPipeline) -> None:
    whole.server.kill()
    whole.server.forget()
    whole.server.start()
    until(lambda: is_whole(whole))

    until(lambda: whole.client().retrieve("bread", timeout_s=20).cached)

    assert whole.redis.exists(GENERATION + "default")
