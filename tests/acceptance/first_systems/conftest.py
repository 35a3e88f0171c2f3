"""One pipeline without workers for the systems that came before: the test's own process takes every step."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import structlog

from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.plain_tracebacks import log_plainly
from tests.support.servers.redis_server import RedisServer

STEP_S = 0.005


@pytest.fixture(autouse=True)
def _plain_tracebacks() -> Iterator[None]:
    log_plainly()
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="package")
def here() -> Iterator[OneProcess]:
    """The shipped pipeline with the default model."""
    with RedisServer() as server, OneProcess(server) as pipeline:
        yield pipeline


@contextmanager
def answering(pipeline: OneProcess) -> Iterator[None]:
    """A thread answers the requests of the pipeline, for clients that wait."""
    stop = threading.Event()

    def serve() -> None:
        while not stop.wait(STEP_S):
            pipeline.work()

    thread = threading.Thread(target=serve, name="worker")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def served_url(here: OneProcess) -> Iterator[str]:
    """The address of the Redis of `here`, whose requests are answered."""
    with answering(here):
        yield here.server.url
