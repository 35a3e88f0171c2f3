"""Fixtures for every test: an environment without our settings, and real Redis servers."""

from __future__ import annotations

import gc
import logging
import os
import signal
from collections.abc import Iterator

import pytest
import redis
import structlog

from config.blas_threads import limit_threads
from tests.support.servers.redis_server import RedisServer, bundled_redis

# Haystack reads it when it is imported, which is while tests are collected, before any fixture.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
# Threads of two pytest processes that wait for each other take most of two cores.
limit_threads()
# The collection of tests frees next to nothing, and the garbage collector would take half of its time.
gc.disable()

pytest_plugins = [
    "tests.support.run.reaper",
    "tests.support.run.time_limit",
    "tests.support.run.folder_scheduling",
    "tests.support.run.passed_before",
]


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The machine's own settings reach no test and no process that it starts.

    With CHORALE_TEST_BUNDLED_REDIS=1 the bundled Redis is the `redis-server` on the PATH.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("CHORALE_") and not name.startswith("CHORALE_TEST_"):
                patch.delenv(name)
        # It traces the tests; a worker that traces its imports takes minutes to start.
        patch.delenv("PYTHONTRACEMALLOC", raising=False)
        # A test that starts pytest means all tests that it names.
        patch.delenv("CHORALE_TEST_PASSED", raising=False)
        if os.environ.get("CHORALE_TEST_BUNDLED_REDIS"):
            folder = tmp_path_factory.mktemp("bundled")
            (folder / "redis-server").symlink_to(bundled_redis())
            patch.setenv("PATH", str(folder), prepend=os.pathsep)
        yield


@pytest.fixture(scope="session", autouse=True)
def _restore_interruptions() -> None:
    """A shell without job control starts background jobs with SIGINT ignored, `nohup` any with SIGHUP; children
    inherit that."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """One server for all tests, in memory; use `redis_client` to find it empty."""
    with RedisServer() as server:
        yield server


@pytest.fixture
def redis_client(redis_server: RedisServer) -> Iterator[redis.Redis]:
    """A client of the shared server, which is emptied first."""
    with redis_server.client() as client:
        client.flushall()
        yield client


@pytest.fixture
def own_redis_server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    """A server that the test may kill, pause or fill; parametrise indirectly with RedisServer's options."""
    with RedisServer(**getattr(request, "param", {})) as server:
        yield server


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()
