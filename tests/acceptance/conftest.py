"""One running pipeline for everything that is asked from outside; its workers send what Flower watches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer, free_port


@pytest.fixture(scope="package")
def pipeline() -> Iterator[RunningPipeline]:
    """It answers on its socket (`server.url`) and, as other machines would find it, on `server.tcp_url`."""
    with (
        RedisServer(port=free_port()) as server,
        RunningPipeline(server, sweeper=True, environment={"CHORALE_TASK_EVENTS": "1"}) as running,
    ):
        running.index(namespace="default")
        yield running
