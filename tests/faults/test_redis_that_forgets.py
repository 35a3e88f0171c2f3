"""Redis forgets what it was given while everything runs: it is full, it evicts any key, it is emptied, or it starts again empty.

Each caller has an answer or an error with a name in time, what was handed in is done or said to be unknown, and the pipeline goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from chorale_client import Chorale
from chorale_client.errors import ChoraleError, NotEnded, UnknownRequest
from chorale_client.jobs import handles
from chorale_client.wire_names import QUEUE_BULK, QUEUE_INDEX, Status
from redis.exceptions import RedisError

from tests.machines.asking import ask, late
from tests.support.command_line import in_process
from tests.support.faults.serving import QUEUES, nobody_has_ended, serving
from tests.support.faults.waiting import is_whole
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until

pytestmark = pytest.mark.slow

CALLERS, REQUESTS, TIMEOUT_S = 4, 20, 2
LINES = 20
FILLER = "filler:"


@pytest.fixture(scope="module")
def running() -> Iterator[RunningPipeline]:
    with serving((*QUEUES, QUEUE_INDEX, QUEUE_BULK)) as pipeline:
        yield pipeline


@pytest.fixture
def whole(running: RunningPipeline) -> Iterator[RunningPipeline]:
    """Yields the pipeline; checks afterwards that the same processes answer, index and do jobs."""
    yield running
    for name, value in {"maxmemory": "0", "maxmemory-policy": "noeviction"}.items():
        running.redis.config_set(name, value)
    until(lambda: is_whole(running))
    nobody_has_ended(running)
    client = running.client()
    ticket = client.upsert("after", [{"id": str(time.time_ns()), "text": "Bread is baked."}])
    assert client.wait_visible(ticket, wait_s=30).added == 1
    assert client.jobs.submit(["who bakes bread?"], namespace="after").wait(60).outcome == "completed"


def evicts(pipeline: RunningPipeline, done: threading.Event) -> None:
    """Redis has memory for some requests, and another program fills it."""
    pipeline.redis.config_set("maxmemory-policy", "allkeys-lru")
    pipeline.redis.config_set("maxmemory", pipeline.redis.info("memory")["used_memory"] + 2_000_000)
    number = 0
    while not done.wait(0.002):
        number += 1
        with suppress(RedisError):
            pipeline.redis.set(f"{FILLER}{number % 500}", b"x" * 20_000)


def fills(pipeline: RunningPipeline, done: threading.Event) -> None:
    """Redis is full for half of the time."""
    while not done.wait(0.3):
        pipeline.redis.config_set("maxmemory", "1mb")
        done.wait(0.3)
        pipeline.redis.config_set("maxmemory", "0")


def empties(pipeline: RunningPipeline, done: threading.Event) -> None:
    while not done.wait(0.7):
        pipeline.redis.flushall()


def starts_again_empty(pipeline: RunningPipeline, done: threading.Event) -> None:
    while not done.wait(1):
        pipeline.server.kill()
        pipeline.server.start()


def outcome(do: Callable[[], Any]) -> Any:
    try:
        return do()
    except ChoraleError as error:
        return error


def became(client: Chorale, ticket: str) -> Any:
    """The outcome of documents; None while they wait.  `wait_visible` names an unknown ticket at the end of its wait, so each wait is 0 s."""
    seen = outcome(partial(client.wait_visible, ticket, wait_s=0))
    return None if isinstance(seen, NotEnded) else seen


@pytest.mark.parametrize("forgets", [evicts, fills, empties, starts_again_empty])
def test_each_caller_has_an_answer_or_an_error_with_a_name_in_time_and_nothing_is_lost_without_a_word(
    whole: RunningPipeline,
    forgets: Callable[[RunningPipeline, threading.Event], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The client gives a submission up after a minute, and Redis would forget all that time.
    monkeypatch.setattr(handles, "PATIENCE_S", 10.0)
    client, done = whole.client(), threading.Event()
    thread = threading.Thread(target=forgets, args=(whole, done))
    thread.start()
    try:
        with ThreadPoolExecutor(CALLERS) as callers:
            outcomes = callers.map(
                lambda number: ask(whole.client(), number, TIMEOUT_S, "default"), range(REQUESTS)
            )
            tickets = [
                outcome(partial(client.upsert, "docs", [{"id": f"{forgets.__name__}{at}", "text": "Bread."}]))
                for at in range(10)
            ]
            job = outcome(lambda: client.jobs.submit(["who bakes bread?"] * LINES, namespace="default"))
            requests = [*outcomes]
    finally:
        done.set()
        thread.join()
    assert late(requests) == []
    assert any(one.outcome in {*Status} for one in requests)
    # An answer that is not complete names what it lacks, and an error says what is wrong.
    assert all(one.detail for one in requests if one.outcome != "complete")
    whole.redis.config_set("maxmemory", "0")
    for ticket in tickets:
        if isinstance(ticket, str):
            indexed = until(partial(became, client, ticket))
            assert isinstance(indexed, UnknownRequest) or indexed.is_whole, indexed
    if not isinstance(job, ChoraleError):
        ended = job.wait(60)
        assert sum(ended.counts.values()) == LINES, ended


def test_the_doctor_names_a_redis_that_evicts_and_one_that_is_nearly_full(running: RunningPipeline) -> None:
    redis = running.redis
    try:
        redis.config_set("maxmemory-policy", "allkeys-lru")
        redis.config_set("maxmemory", redis.info("memory")["used_memory"])
        printed = in_process("doctor", **running.environment).stdout
        assert "Redis may evict requests and answers (maxmemory-policy allkeys-lru)" in printed
        assert "of its memory; when it is full it refuses requests" in printed
    finally:
        redis.config_set("maxmemory", "0")
        redis.config_set("maxmemory-policy", "noeviction")
