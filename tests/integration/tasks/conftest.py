"""Pipelines for the tests that leave them whole: one in the test's process, the usual one with workers, and one whose branches fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog

from tests.support.pipelines.kinds import kinds_with
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.pipelines.plain_tracebacks import log_plainly
from tests.support.servers.redis_server import RedisServer

FAILING_KINDS = """
import time
from branches.kinds import bm25
from tests.support.pipelines.kinds import declare

def raises(part):
    raise RuntimeError("the disk is on fire")

def out_of_memory(part):
    raise MemoryError("too much")

def sleeps(part):
    part.resources.redis.set(f"begun:{part.request.request_id}", 1)
    time.sleep(1.5)
    return bm25.search_bm25(part)

def hangs_once(part):
    if part.resources.redis.set(f"hung:{part.request.request_id}", 1, nx=True, ex=60):
        time.sleep(4)
    return bm25.search_bm25(part)

declare(raises=raises, out_of_memory=out_of_memory, sleeps=sleeps, hangs_once=hangs_once)
"""

FAILING = ("raises", "out_of_memory", "sleeps", "hangs_once")


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
def failing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPipeline]:
    """A pipeline of bm25 and a branch for each kind of FAILING.

    Two workers serve `hangs_once`, since a hedge needs a second one.
    """
    tables = ['[stores.local]\nkind = "embedded"\n', _branch("bm25", "lexical")]
    tables += [_branch(kind, "dense", "limit_s = 3\n" * (kind == "hangs_once")) for kind in FAILING]
    file = tmp_path_factory.mktemp("failing") / "pipeline.toml"
    file.write_text("\n".join(tables))
    queues = [f"chorale.{name}" for name in ("retrieve", "fusion", "bm25", *FAILING)]
    with (
        RedisServer() as server,
        RunningPipeline(
            server,
            queues=queues,
            pipeline_file=file,
            kinds=kinds_with(*FAILING),
            sweeper=True,
            preload=FAILING_KINDS,
        ) as running,
    ):
        running.start("another", queue="chorale.hangs_once")
        running.index()
        running.wait_ready()
        yield running


def _branch(kind: str, group: str, more: str = "") -> str:
    return f'[branches.{kind}]\nkind = "{kind}"\ngroup = "{group}"\nstore = "local"\n{more}'
