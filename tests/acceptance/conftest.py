"""One running pipeline for all tests from outside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chorale_client.default_timeout import publish_timeouts

from tests.support.pipelines.pipeline import ROOT, RunningPipeline
from tests.support.servers.redis_server import RedisServer, free_port
from tests.support.wheels import build

SETTINGS = {
    # Flower watches the task events of the workers.
    "CHORALE_TASK_EVENTS": "1",
    "CHORALE_REMOTE_CONTROL": "1",
    # Applications are told of the ends of their requests.
    "CHORALE_ON_END_QUEUES": "shop,reports",
    # A branch that a test pauses is asked again by the next test.
    "CHORALE_BREAKER_FAILURES": "0",
}


@pytest.fixture(scope="package")
def client_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT / "client", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="package")
def pipeline() -> Iterator[RunningPipeline]:
    """Its Redis answers on a socket (`server.url`) and, as for other machines, on TCP (`server.tcp_url`)."""
    with (
        RedisServer(port=free_port()) as server,
        RunningPipeline(server, alone=["chorale.hyde"], sweeper=True, environment=SETTINGS) as running,
    ):
        running.start("chorale.bulk")
        for namespace in ("default", "docs"):
            running.index(namespace=namespace)
        running.wait_ready()
        # By default a request has two seconds, in which a busy machine may miss a branch.
        publish_timeouts(running.redis, {"": 20.0})
        yield running
