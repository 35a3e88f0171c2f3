"""Redis answers, and refuses commands for a moment: the workers wait and go on, as they do when Redis is away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.faults.moments import join_without_one_branch
from tests.support.faults.observers import asking, order_by
from tests.support.faults.refusals import (
    Refusal,
    busy_with_a_script,
    full,
    read_only,
    unable_to_save,
    without_its_primary,
    without_replicas,
)
from tests.support.faults.serving import QUEUES, is_as_before, serving
from tests.support.pipelines.pipeline import RunningPipeline, logging_to
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the processes say."""
    return tmp_path_factory.mktemp("said") / "log"


@pytest.fixture(scope="module")
def refused(said: Path) -> Iterator[RunningPipeline]:
    with serving(preload=logging_to(said)) as pipeline:
        yield pipeline


@pytest.fixture
def running(refused: RunningPipeline) -> Iterator[RunningPipeline]:
    """Yields the pipeline; checks afterwards that the same processes answer completely, and that their heartbeats go on."""
    yield refused
    is_as_before(refused)
    for name in refused.processes:
        refused.redis_forget(name)
    refused.wait_ready()


def lines(said: Path, words: str) -> int:
    return said.read_text().count(words)


@pytest.mark.parametrize("refusing", [read_only, without_its_primary, without_replicas, unable_to_save])
def test_workers_wait_while_redis_takes_no_writes(
    running: RunningPipeline, said: Path, refusing: Refusal
) -> None:
    before = lines(said, "broker unreachable")
    with refusing(running.server):
        until(lambda: lines(said, "broker unreachable") == before + len(QUEUES))


def test_workers_wait_while_redis_is_busy_with_a_script(running: RunningPipeline, said: Path) -> None:
    """Redis refuses no BRPOP that already waits, so only the threads of a worker see the error."""
    before = lines(said, "no heartbeat is written")
    with busy_with_a_script(running.server):
        until(lambda: lines(said, "no heartbeat is written") == before + len(running.processes))


def test_workers_that_lose_their_connections_to_a_full_redis_connect_again(running: RunningPipeline) -> None:
    """Only consumers of the queues free memory in Redis."""
    with full(running.server):
        running.redis.client_kill_filter(_type="normal", skipme=True)
        until(lambda: [one["cmd"] for one in running.redis.client_list()].count("brpop") == len(QUEUES))


def test_a_fusion_worker_that_starts_while_redis_is_full_believes_the_branches(
    running: RunningPipeline, said: Path
) -> None:
    expected = order_by(running, ["bm25", "hyde"])
    running.pause("chorale.vector")
    future = asking(running, request_id="started-full", timeout_s=20)
    running.kill("chorale.fusion")
    join_without_one_branch(running, "started-full")
    with full(running.server):
        running.start("chorale.fusion")
        answer = future.result(60)
    running.resume("chorale.vector")
    assert (answer.documents, answer.branches) == (expected, {"bm25", "hyde"})
    assert answer.missing == [("search.vector", "not_started")]
    assert "Traceback" not in said.read_text()


def test_a_worker_that_may_no_longer_take_messages_says_so_and_ends_with_exit_code_1(
    own_redis_server: RedisServer, tmp_path: Path
) -> None:
    with own_redis_server.client() as admin:
        admin.acl_setuser(
            "worker", enabled=True, passwords=["+sesame"], keys="*", channels="*", commands=["+@all"]
        )
        url = own_redis_server.url.replace("://", "://worker:sesame@")
        log = tmp_path / "log"
        with RunningPipeline(
            own_redis_server,
            queues=["chorale.bm25"],
            environment={"CHORALE_REDIS_URL": url},
            preload=logging_to(log),
        ) as pipeline:
            admin.acl_setuser("worker", commands=["-brpop"])
            assert pipeline.processes["chorale.bm25"].wait(60) == 1
    assert "no permissions to run the 'brpop' command" in log.read_text()
