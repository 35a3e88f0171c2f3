"""One pipeline with a branch for every way to fail, for tests that kill no process of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chorale_client.keys import MOMENTS

from tests.support.faults import lost_workers as gone
from tests.support.pipelines import branch_faults, failpoints
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer

QUEUES = ("chorale.retrieve", "chorale.bm25", branch_faults.QUEUE, "chorale.fusion")


@pytest.fixture(scope="package")
def faulty_pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPipeline]:
    with (
        RedisServer() as server,
        RunningPipeline(
            server,
            queues=QUEUES,
            sweeper=True,
            pipeline_file=branch_faults.pipeline_file(tmp_path_factory.mktemp("faulty")),
            kinds=branch_faults.KINDS,
            preload=branch_faults.PRELOAD,
            environment={
                "CHORALE_BREAKER_FAILURES": "0",
                "CHORALE_DRAIN": "true",
                "CHORALE_ANSWER_LIMIT_MB": "0.1",
                "CHORALE_REMOTE_CONTROL": "true",
            },
        ) as running,
    ):
        running.index()
        yield running


@pytest.fixture
def faulty(faulty_pipeline: RunningPipeline) -> Iterator[RunningPipeline]:
    """Yields the pipeline; checks afterwards that every process lives and the next request is complete."""
    yield faulty_pipeline
    assert [name for name, process in faulty_pipeline.processes.items() if process.poll() is not None] == []
    answer = faulty_pipeline.client().retrieve("bread", branches=["bm25"], cache="bypass", timeout_s=20)
    assert answer.status == "complete"
    assert faulty_pipeline.redis.zcard(MOMENTS) == 0, "a request is left in flight"


@pytest.fixture(scope="module")
def running() -> Iterator[RunningPipeline]:
    """A pipeline whose processes tests kill and hang, with a failpoint at each place."""
    with (
        RedisServer() as server,
        RunningPipeline(
            server,
            queues=gone.QUEUES,
            sweeper=True,
            preload=failpoints.PRELOAD,
            environment={"CHORALE_BREAKER_FAILURES": "0"},
        ) as pipeline,
    ):
        pipeline.index()
        yield pipeline


@pytest.fixture
def whole(running: RunningPipeline) -> Iterator[RunningPipeline]:
    """Yields the pipeline; brings back killed and hung processes afterwards, and checks that the next request is complete."""
    yield running
    failpoints.disarm(running.redis)
    running.revive()
    gone.assert_next_is_whole(running)
