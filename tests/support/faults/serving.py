"""Pipelines for faults: a Redis, workers, a sweeper that drains, and documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.support.faults.waiting import is_whole
from tests.support.pipelines.pipeline import CORPUS, RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

ALL = ["bm25", "vector", "hyde"]
QUEUES = ["chorale.retrieve", "chorale.bm25", "chorale.vector", "chorale.hyde", "chorale.fusion"]


@contextmanager
def serving(
    queues: Sequence[str] = QUEUES,
    *,
    server: RedisServer | None = None,
    appendonly: bool = False,
    environment: Mapping[str, str] | None = None,
    texts: Mapping[str, tuple[str, str]] = CORPUS,
    **options: Any,
) -> Iterator[RunningPipeline]:
    """Yields a pipeline of these queues without breakers; the options are those of `RunningPipeline`."""
    variables = {"CHORALE_DRAIN": "true", "CHORALE_BREAKER_FAILURES": "0", **(environment or {})}
    with ExitStack() as stack:
        server = server or stack.enter_context(RedisServer(appendonly=appendonly))
        pipeline = RunningPipeline(server, queues=queues, sweeper=True, environment=variables, **options)
        stack.enter_context(pipeline)
        pipeline.index(texts)
        yield pipeline


def nobody_has_ended(pipeline: RunningPipeline) -> None:
    assert [name for name, process in pipeline.processes.items() if process.poll() is not None] == []


def is_as_before(pipeline: RunningPipeline) -> None:
    """Waits until every branch answers again, with the processes of before."""
    until(lambda: is_whole(pipeline))
    nobody_has_ended(pipeline)
