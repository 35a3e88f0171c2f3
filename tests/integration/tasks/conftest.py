"""Pipelines for the tests that leave them whole: two in the test's process, one of which fails, and one with workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog

from models.declarations.extensions import BranchKind, Kinds
from models.hits import Ranking
from tasks.branches.branch_task import BranchTask
from tasks.wiring.pipeline import BUILT_IN
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.pipelines.pipeline_files import LOCAL, branch
from tests.support.pipelines.plain_tracebacks import log_plainly
from tests.support.servers.redis_server import RedisServer


@pytest.fixture(autouse=True)
def _plain_tracebacks() -> Iterator[None]:
    log_plainly()
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="package")
def here() -> Iterator[OneProcess]:
    """The usual pipeline without workers."""
    with RedisServer() as server, OneProcess(server) as pipeline:
        pipeline.index()
        yield pipeline


@pytest.fixture(scope="package")
def pipeline() -> Iterator[RunningPipeline]:
    with (
        RedisServer() as server,
        RunningPipeline(server, alone=["chorale.fusion"], sweeper=True) as running,
    ):
        running.index()
        yield running


@pytest.fixture(scope="package")
def failing() -> Iterator[OneProcess]:
    """A pipeline without workers of `bm25`, `slow`, whose queue a test serves late or never, `raises` and `out_of_memory`."""

    def raises(part: BranchTask) -> list[Ranking]:
        raise RuntimeError("the disk is on fire")

    def out_of_memory(part: BranchTask) -> list[Ranking]:
        raise MemoryError("too much")

    kinds = {"raises": BranchKind(raises), "out_of_memory": BranchKind(out_of_memory)}
    tables = [LOCAL, branch("bm25"), branch("slow", "dense", kind="bm25", more="limit_s = 3")]
    with OneProcess.with_file(
        "".join([*tables, *(branch(kind, "dense") for kind in kinds)]),
        kinds=BUILT_IN | Kinds(branches=kinds),
        environment={"CHORALE_BREAKER_FAILURES": "0"},
    ) as pipeline:
        pipeline.index()
        yield pipeline
