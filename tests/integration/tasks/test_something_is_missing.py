"""A part of the pipeline is missing or slow: each request ends in time, with the rest, and says what was missing."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from chorale_client import Answer, make_request

from models.envelope import Envelope
from tasks.celery_surface.result_backend import Report
from tasks.request.retrieve import submit
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until


def ended_in_time(answer: Answer, timeout_s: float) -> bool:
    """By the Redis clock, which `took_ms` is measured by."""
    return answer.took_ms <= (timeout_s + 1) * 1000


def test_a_branch_that_raises_costs_only_itself(failing: RunningPipeline) -> None:
    answer = failing.client().retrieve("ERR-4711", branches=["bm25", "raises"], timeout_s=20)

    assert answer.status == "degraded"
    assert [(one.where, one.reason) for one in answer.degraded] == [("search.raises", "error")]
    assert answer.degraded[0].detail == "RuntimeError: the disk is on fire"
    assert answer.hits[0].document_id == "error"
    assert answer.took_ms < 10_000, "nobody waits for a branch that has already failed"


def test_a_memory_error_ends_no_worker(failing: RunningPipeline) -> None:
    for _ in range(2):
        answer = failing.client().retrieve("ERR-4711", branches=["bm25", "out_of_memory"], timeout_s=20)
        assert [one.detail for one in answer.degraded] == ["MemoryError: too much"]
    assert failing.processes["chorale.out_of_memory"].poll() is None


def test_a_branch_that_is_too_slow_is_left_out(failing: RunningPipeline) -> None:
    answer = failing.client().retrieve("ERR-4711", branches=["bm25", "sleeps"], timeout_s=1)

    assert (answer.status, answer.hits[0].document_id) == ("degraded", "error")
    assert [(one.where, one.reason) for one in answer.degraded] == [("search.sleeps", "timeout")]
    assert ended_in_time(answer, 1)


@pytest.mark.slow
@pytest.mark.serial
def test_sixty_four_questions_that_are_joined_late_end_in_time(failing: RunningPipeline) -> None:
    words = ["tenant", "pays", "rent", "month", "ends", "contract", "says", "landlord"]
    texts = {f"doc{place}": (f"text {place}", " ".join(words * 40 + [str(place)])) for place in range(60)}
    failing.index(texts, namespace="rents")
    questions = [f"{first} {second}" for first in words for second in words]

    def hits_of_each() -> list[int]:
        answer = failing.client().retrieve(
            questions, namespace="rents", branches=["bm25", "hangs_once"], top_k=40, timeout_s=2.5
        )
        assert ended_in_time(answer, 2.5)
        assert {one.where for one in answer.degraded} <= {"search.hangs_once", "fuse"}
        return [len(one.hits) for one in answer.questions]

    # The time that is kept for joining them may be too short while the machine does something else.
    until(lambda: hits_of_each() == [40] * 64)


@pytest.fixture(scope="module")
def lacking() -> Iterator[RunningPipeline]:
    """All queues are served, and a test may take one away for a while."""
    with RedisServer() as server, RunningPipeline(server, sweeper=True) as running:
        running.index()
        running.client().retrieve("warm", cache="bypass")
        yield running


@pytest.fixture
def without(request: pytest.FixtureRequest, lacking: RunningPipeline) -> Iterator[RunningPipeline]:
    """The pipeline without the workers of these queues, which come back afterwards."""
    for name in request.param:
        lacking.kill(name)
    yield lacking
    for name in request.param:
        if name not in lacking.processes:
            lacking.start(name)
    lacking.wait_ready(request.param)
    assert lacking.client().retrieve("bread", cache="bypass", timeout_s=10).status == "complete"


@pytest.mark.parametrize("without", [["chorale.vector"]], indirect=True)
def test_a_queue_that_nobody_serves_is_named(without: RunningPipeline) -> None:
    answer = without.client().retrieve("ERR-4711", cache="bypass", timeout_s=3)

    assert (answer.status, answer.hits[0].document_id) == ("degraded", "error")
    assert [(one.where, one.reason) for one in answer.degraded] == [("search.vector", "not_started")]
    assert ended_in_time(answer, 3)


@pytest.mark.parametrize("without", [["chorale.fusion"]], indirect=True)
def test_without_a_fusion_worker_the_sweeper_answers(without: RunningPipeline) -> None:
    def answered() -> Answer | None:
        """The answer, unless the machine was too busy to fetch its texts in the 60 ms that the sweeper has for them."""
        one = without.client().retrieve("ERR-4711", cache="bypass", timeout_s=1)
        return None if "fetch" in {part.where for part in one.degraded} else one

    answer = until(answered)

    assert answer is not None
    assert (answer.status, answer.hits[0].document_id) == ("degraded", "error")
    assert [(one.where, one.reason) for one in answer.degraded] == [("fuse", "not_started")]
    assert set(answer.hits[0].found_by) == {"bm25", "vector", "hyde"}
    assert ended_in_time(answer, 1)


@pytest.mark.parametrize("without", [["chorale.retrieve"]], indirect=True)
def test_without_a_worker_to_plan_it_the_sweeper_plans_the_request(without: RunningPipeline) -> None:
    answer = without.client().retrieve("ERR-4711", cache="bypass", timeout_s=5)

    assert (answer.status, answer.hits[0].document_id, answer.degraded) == ("complete", "error", ())
    assert answer.took_ms >= 400, "a worker has its time first"


@pytest.mark.parametrize("without", [["chorale.retrieve"]], indirect=True)
def test_without_a_worker_to_plan_it_a_request_with_no_time_for_the_sweeper_fails_in_time(
    without: RunningPipeline,
) -> None:
    answer = without.client().retrieve("ERR-4711", cache="bypass", timeout_s=0.3)

    assert (answer.status, answer.hits) == ("failed", ())
    assert [(one.where, one.reason) for one in answer.degraded] == [("plan", "not_started")]
    assert ended_in_time(answer, 0.3)


@pytest.mark.parametrize("without", [["chorale.bm25", "chorale.vector", "chorale.hyde"]], indirect=True)
def test_without_any_branch_the_request_fails_in_time(without: RunningPipeline) -> None:
    answer = without.client().retrieve("ERR-4711", cache="bypass", timeout_s=1)
    assert answer.status == "failed"
    assert {one.reason for one in answer.degraded} == {"not_started"}
    assert ended_in_time(answer, 1)


EVERYTHING = [
    "chorale.retrieve",
    "chorale.bm25",
    "chorale.vector",
    "chorale.hyde",
    "chorale.fusion",
    "chorale.index",
    "sweeper",
]


@pytest.mark.parametrize("without", [EVERYTHING], indirect=True)
def test_with_nothing_running_the_caller_ends_the_request_itself(without: RunningPipeline) -> None:
    answer = without.client().retrieve("ERR-4711", cache="bypass", timeout_s=0.5)

    assert answer.status == "failed"
    assert [(one.where, one.reason) for one in answer.degraded] == [("plan", "not_started")]
    assert ended_in_time(answer, 0.5)
    assert without.client().answer(answer.request_id) == answer


@pytest.mark.parametrize("without", [["chorale.vector"]], indirect=True)
def test_a_part_whose_message_was_lost_is_sent_again(without: RunningPipeline) -> None:
    request = make_request("ERR-4711", cache="bypass", timeout_s=60)
    submit(without.resources, without.app.fanout, request)
    assert without.redis.delete("chorale.vector") == 1, "the message is gone from the queue"
    without.start("chorale.vector")

    answer = without.client().answer(request.request_id, wait_s=61)

    assert answer.status == "complete"
    assert set(answer.hits[0].found_by) == {"bm25", "vector", "hyde"}


@pytest.mark.parametrize("without", [["chorale.fusion"]], indirect=True)
def test_a_callback_that_was_lost_is_sent_again(without: RunningPipeline) -> None:
    request = make_request("ERR-4711", cache="bypass", timeout_s=60)
    submit(without.resources, without.app.fanout, request)
    until(lambda: without.redis.delete("chorale.fusion"))
    without.start("chorale.fusion")
    assert without.client().answer(request.request_id, wait_s=61).status == "complete"


def test_many_callers_at_once_are_all_answered(lacking: RunningPipeline) -> None:
    client, answers = lacking.client(), []

    def ask(number: int) -> None:
        answers.append(client.retrieve(f"bread number {number}", cache="bypass", timeout_s=30))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.status for answer in answers] == ["complete"] * 32
    assert len({answer.request_id for answer in answers}) == 32


def test_a_report_is_cheap_to_log() -> None:
    assert repr(Report(Envelope("vector", "ok"))) == "<vector ok>"
