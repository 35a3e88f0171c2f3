"""Brings forward a moment that a request waits for, so that no test waits for a deadline, and time is left for what follows."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from chorale_client.keys import ENTRY, WAKEUPS

from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until


def join_without_one_branch(
    pipeline: RunningPipeline, request_id: str = "", *, begun: str = "", in_ms: int = 0
) -> None:
    """Once all branches but one have reported, the request (by default the one in flight) waits for that one no longer.

    `begun`: that branch has to have begun before.  `in_ms`: the request waits for that long before.
    """
    request_id = request_id or in_flight(pipeline)
    until(lambda: pipeline.redis.hget(ENTRY + request_id, "left") == b"1")
    until(lambda: not begun or pipeline.redis.hexists(ENTRY + request_id, f"started:{begun}"))
    _now(pipeline, request_id, "join_at", _now_ms(pipeline) + in_ms)


@contextmanager
def joining_without_one_branch(pipeline: RunningPipeline) -> Iterator[None]:
    """As `join_without_one_branch` for the request that the block asks, and waits for."""
    until(lambda: not pipeline.redis.exists(WAKEUPS))
    with ThreadPoolExecutor(1) as threads:
        joined = threads.submit(join_without_one_branch, pipeline)
        yield
        joined.result()


def end_without_fusion(pipeline: RunningPipeline, request_id: str = "") -> None:
    """Once all branches have reported, the sweeper ends the request, with the rest of its time for that."""
    request_id = request_id or in_flight(pipeline)
    until(lambda: pipeline.redis.hget(ENTRY + request_id, "left") == b"0")
    deadline = int(pipeline.redis.hget(ENTRY + request_id, "deadline") or 0)
    _now(pipeline, request_id, "finish_reserve", deadline - _now_ms(pipeline))


def in_flight(pipeline: RunningPipeline) -> str:
    """Waits for the one request in flight, and returns its id."""
    request_id: Any
    [request_id] = until(lambda: pipeline.redis.zrange(WAKEUPS, 0, -1))
    return str(request_id.decode())


def _now_ms(pipeline: RunningPipeline) -> int:
    seconds, micros = pipeline.redis.time()
    return int(seconds) * 1000 + int(micros) // 1000


def _now(pipeline: RunningPipeline, request_id: str, field: str, value: int) -> None:
    pipeline.redis.hset(ENTRY + request_id, field, str(value))
    pipeline.redis.zadd(WAKEUPS, {request_id: 0})
