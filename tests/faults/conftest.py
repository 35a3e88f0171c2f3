"""One pipeline with a branch for every way to fail, for tests that kill no process of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chorale_client.keys import WAKEUPS
from chorale_client.wire_names import QUEUE_RETRIEVE

from tests.support.faults.lost_workers import assert_next_is_whole
from tests.support.faults.serving import nobody_has_ended, serving
from tests.support.pipelines import branch_faults, failpoints
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until

QUEUES = ("chorale.retrieve", "chorale.bm25", branch_faults.QUEUE, "chorale.fusion")


@pytest.fixture(scope="package")
def faulty_pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPipeline]:
    with serving(
        QUEUES,
        pipeline_file=branch_faults.pipeline_file(tmp_path_factory.mktemp("faulty")),
        kinds=branch_faults.KINDS,
        preload=branch_faults.PRELOAD,
        environment={"CHORALE_ANSWER_LIMIT_MB": "0.1", "CHORALE_REMOTE_CONTROL": "true"},
    ) as running:
        yield running


@pytest.fixture
def faulty(faulty_pipeline: RunningPipeline) -> Iterator[RunningPipeline]:
    """Yields the pipeline; checks afterwards that every process lives and the next request is complete."""
    yield faulty_pipeline
    nobody_has_ended(faulty_pipeline)
    assert_next_is_whole(faulty_pipeline, ["bm25"])
    until(lambda: faulty_pipeline.redis.zcard(WAKEUPS) == 0)
    # The sweeper sends the message of a request that is planned late a second time.
    until(lambda: faulty_pipeline.redis.llen(QUEUE_RETRIEVE) == 0)


@pytest.fixture(scope="package")
def running() -> Iterator[RunningPipeline]:
    """A pipeline whose processes, Redis and files tests kill, hang and damage, with a failpoint at each place."""
    with serving(appendonly=True, preload=failpoints.PRELOAD) as pipeline:
        yield pipeline


@pytest.fixture
def whole(running: RunningPipeline) -> Iterator[RunningPipeline]:
    """Yields the pipeline; brings back killed and hung processes afterwards, and checks that the next request is complete."""
    yield running
    failpoints.disarm(running.redis)
    running.revive()
    assert_next_is_whole(running)
