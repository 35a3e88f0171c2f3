"""A job goes through the client whole although sweepers and Redis die, and its end is sent to the task that the caller names."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from chorale_client import Chorale, service_calls
from chorale_client.jobs import input_stats

from config.redis_client import redis_ms
from records.jobs.job import Outcome
from tests.support.jobs import answered
from tests.support.pipelines.bulk import HASTE
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.webhook import SECRET, Hook
from tests.support.waiting import until

SWEEPERS = ("sweeper.1", "sweeper.2")
LINES = 1_000


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningPipeline]:
    """Two sweepers without workers, and a Redis that keeps nothing."""
    monkeypatch.setattr(service_calls, "AGAIN_S", 0.5)
    monkeypatch.setattr(service_calls, "POLL_S", 0.2)
    monkeypatch.setattr(input_stats, "MESSAGE_BYTES", 5_000)
    environment = {"CHORALE_WEBHOOK_SECRET": SECRET, "CHORALE_WEBHOOK_HOSTS": "127.0.0.1"}
    with (
        RedisServer() as server,
        RunningPipeline(server, queues=[], environment=environment, preload=HASTE) as pipeline,
    ):
        for sweeper in SWEEPERS:
            pipeline.start(sweeper)
        pipeline.wait_ready()
        yield pipeline


@contextmanager
def meanwhile(*faults: Callable[[], None]) -> Iterator[None]:
    """These things happen again and again, in any order, while the block runs."""
    is_over = threading.Event()
    chosen = random.Random(7)

    def happen() -> None:
        while not is_over.wait(chosen.uniform(0.05, 0.4)):
            chosen.choice(faults)()

    thread = threading.Thread(target=happen)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def answer(running: RunningPipeline, job_id: str) -> None:
    """Ends the job while no sweeper runs."""
    for sweeper in SWEEPERS:
        running.kill(sweeper)
    jobs = running.resources.jobs
    jobs.lapse(job_id, now_ms=10**15)
    answered(jobs, job_id)
    assert jobs.end(job_id, Outcome.COMPLETED, now_ms=redis_ms(running.redis))
    for sweeper in SWEEPERS:
        running.start(sweeper)
    running.wait_ready()


def test_every_line_comes_once_and_every_result_goes_once_although_sweepers_and_redis_die(
    running: RunningPipeline,
) -> None:
    def sweeper_dies() -> None:
        name = random.choice(SWEEPERS)
        running.kill(name)
        running.start(name)

    def redis_dies() -> None:
        running.server.kill()
        time.sleep(0.1)
        running.server.start()

    def questions() -> Iterator[str]:
        for number in range(1, LINES + 1):
            if number % 100 == 0:
                time.sleep(0.1)  # so that the faults come while lines are on their way
            yield f"question {number}"

    jobs = Chorale(running.server.url).jobs
    with meanwhile(sweeper_dies, sweeper_dies, redis_dies):
        handle = jobs.submit(questions(), namespace="default")
    assert handle.get().total == LINES
    answer(running, handle.job_id)
    with meanwhile(sweeper_dies):
        results = list(handle.results())
    assert [line["line"] for line in results] == list(range(1, LINES + 1))


def test_the_end_is_announced_although_the_sweeper_that_tried_has_died(running: RunningPipeline) -> None:
    jobs = Chorale(running.server.url).jobs
    with Hook(500) as hook:
        handle = jobs.submit(["tea"], namespace="default", on_end={"url": hook.url})
        answer(running, handle.job_id)
        until(lambda: hook.got)
        for sweeper in SWEEPERS:
            running.kill(sweeper)
        running.start("sweeper.1")
        until(lambda: len(hook.got) >= 2)
        until(lambda: running.resources.jobs.active() == [])
    assert len({headers["webhook-id"] for _, headers, _ in hook.got}) == 1
