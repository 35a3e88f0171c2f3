"""A part of the pipeline is missing or slow: each request ends in time, with the rest, and says what was missing.

`tests/integration/ledger` says to the millisecond when a request is joined and ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from chorale_client import Answer, Chorale, ServiceUnavailable

from models.envelope import Envelope
from tasks.celery_surface.result_backend import Report
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

pytestmark = pytest.mark.slow


def missing(answer: Answer) -> list[tuple[str, str]]:
    return [(one.where, one.reason) for one in answer.degraded]


def test_a_branch_that_raises_costs_only_itself(failing: RunningPipeline) -> None:
    answer = failing.client().retrieve("ERR-4711", branches=["bm25", "raises"], timeout_s=30)

    assert (answer.status, missing(answer)) == ("degraded", [("search.raises", "error")])
    assert answer.degraded[0].detail == "RuntimeError: the disk is on fire"
    assert answer.hits[0].document_id == "error"
    assert answer.took_ms < 20_000, "nobody waits for a branch that has already failed"


def test_a_memory_error_ends_no_worker(failing: RunningPipeline) -> None:
    for _ in range(2):
        answer = failing.client().retrieve("ERR-4711", branches=["bm25", "out_of_memory"], timeout_s=20)
        assert [one.detail for one in answer.degraded] == ["MemoryError: too much"]
    assert failing.processes["chorale.out_of_memory"].poll() is None


def test_a_branch_that_is_too_slow_is_left_out(failing: RunningPipeline) -> None:
    def answered_by_bm25() -> Answer | None:
        """The answer, unless the machine was too busy to search within a second."""
        answer = failing.client().retrieve("ERR-4711", branches=["bm25", "sleeps"], timeout_s=1)
        return answer if missing(answer) == [("search.sleeps", "timeout")] else None

    answer = until(answered_by_bm25)
    assert answer is not None
    assert (answer.status, answer.hits[0].document_id) == ("degraded", "error")


def test_sixty_four_questions_that_are_joined_late_end_in_time(failing: RunningPipeline) -> None:
    words = ["tenant", "pays", "rent", "month", "ends", "contract", "says", "landlord"]
    texts = {f"doc{place}": (f"text {place}", " ".join(words * 40 + [str(place)])) for place in range(60)}
    failing.index(texts, namespace="rents")
    questions = [f"{first} {second}" for first in words for second in words]

    def hits_of_each() -> list[int]:
        try:
            answer = failing.client().retrieve(
                questions, namespace="rents", branches=["bm25", "hangs_once"], top_k=40, timeout_s=2.5
            )
        except ServiceUnavailable:  # the machine is too busy for an answer of this size within Redis' timeout
            return []
        assert answer.took_ms <= 10_000
        assert {one.where for one in answer.degraded} <= {"search.hangs_once", "fuse"}
        return [len(one.hits) for one in answer.questions]

    # The time that is kept for joining them may be too short while the machine does something else.
    until(lambda: hits_of_each() == [40] * 64)


@pytest.fixture(scope="module")
def of_three_workers() -> Iterator[RunningPipeline]:
    """Nobody serves the queues of `vector` and `hyde`."""
    queues = ["chorale.retrieve", "chorale.bm25", "chorale.fusion"]
    with RedisServer() as server, RunningPipeline(server, queues=queues, sweeper=True) as running:
        running.index()
        yield running


@pytest.fixture
def few(of_three_workers: RunningPipeline) -> RunningPipeline:
    if "chorale.fusion" not in of_three_workers.processes:
        of_three_workers.start("chorale.fusion")
        of_three_workers.wait_ready(["chorale.fusion"])
    return of_three_workers


@pytest.fixture
def without_fusion(of_three_workers: RunningPipeline) -> RunningPipeline:
    if "chorale.fusion" in of_three_workers.processes:
        of_three_workers.kill("chorale.fusion")
    return of_three_workers


def test_a_queue_that_nobody_serves_is_named(few: RunningPipeline) -> None:
    def answered_by_bm25() -> Answer | None:
        """The answer, unless the machine was too busy to search within two seconds."""
        answer = few.client().retrieve("ERR-4711", branches=["bm25", "vector"], cache="bypass", timeout_s=2)
        return answer if answer.hits else None

    answer = until(answered_by_bm25)
    assert answer is not None
    assert (answer.status, answer.hits[0].document_id) == ("degraded", "error")
    assert missing(answer) == [("search.vector", "not_started")]


def test_without_any_branch_the_request_fails(few: RunningPipeline) -> None:
    answer = few.client().retrieve("ERR-4711", branches=["vector", "hyde"], cache="bypass", timeout_s=0.5)

    assert answer.status == "failed"
    assert {one.reason for one in answer.degraded} == {"not_started"}


def test_without_a_fusion_worker_the_sweeper_answers(without_fusion: RunningPipeline) -> None:
    def answered_with_texts() -> Answer | None:
        """The answer, unless the machine was too busy to search, or to fetch texts in the 60 ms of the sweeper."""
        client = without_fusion.client()
        answer = client.retrieve("ERR-4711", branches=["bm25"], cache="bypass", timeout_s=1)
        return answer if missing(answer) == [("fuse", "not_started")] and answer.hits else None

    answer = until(answered_with_texts)
    assert answer is not None
    assert (answer.status, answer.hits[0].document_id) == ("degraded", "error")
    assert answer.hits[0].found_by == ("bm25",)


def test_with_nothing_running_the_caller_ends_the_request_itself(
    redis_server: RedisServer, redis_client: redis.Redis
) -> None:
    client = Chorale(redis_server.url)
    answer = client.retrieve("ERR-4711", timeout_s=0.3)

    assert (answer.status, answer.hits) == ("failed", ())
    assert missing(answer) == [("plan", "not_started")]
    # It ends the request only when the time is over, by the clock of Redis.
    assert answer.took_ms >= 300
    assert client.answer(answer.request_id) == answer


def test_many_callers_at_once_are_all_answered(pipeline: RunningPipeline) -> None:
    client = pipeline.client()

    def ask(number: int) -> Answer:
        return client.retrieve(f"bread number {number}", cache="bypass", timeout_s=60)

    with ThreadPoolExecutor(32) as threads:
        answers = list(threads.map(ask, range(32)))
    assert [answer.status for answer in answers] == ["complete"] * 32
    assert len({answer.request_id for answer in answers}) == 32


def test_a_report_is_cheap_to_log() -> None:
    assert repr(Report(Envelope("vector", "ok"))) == "<vector ok>"
