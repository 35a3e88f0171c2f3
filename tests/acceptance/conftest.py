"""One running pipeline for all tests from outside; its workers send the task events that Flower watches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer, free_port


@pytest.fixture(scope="package")
def pipeline() -> Iterator[RunningPipeline]:
    """Its Redis answers on a socket (`server.url`) and, as for other machines, on TCP (`server.tcp_url`)."""
    with (
        RedisServer(port=free_port()) as server,
        RunningPipeline(
            server, sweeper=True, environment={"CHORALE_TASK_EVENTS": "1", "CHORALE_REMOTE_CONTROL": "1"}
        ) as running,
    ):
        running.start("chorale.bulk")
        running.index(namespace="default")
        running.wait_ready()
        yield running
