"""One running pipeline for the tests that leave it whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer


@pytest.fixture(scope="package")
def pipeline() -> Iterator[RunningPipeline]:
    with RedisServer() as server, RunningPipeline(server, sweeper=True) as running:
        running.index()
        yield running
