"""Workers that start while Redis is away, or whose login Redis or RabbitMQ refuses, wait as the sweeper does."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tasks.worker.worker_process import AGAIN_S
from tests.support.pipelines.fork_server import ForkedProcess
from tests.support.pipelines.forked_children import start_module
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.pipelines.pipeline_files import LOCAL, branch
from tests.support.servers.rabbitmq import own_queues
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.services import need
from tests.support.waiting import until

QUEUES = ["chorale.retrieve", "chorale.bm25", "chorale.fusion"]


@contextmanager
def worker(home: Path, **environment: str) -> Iterator[tuple[ForkedProcess, Path]]:
    """`chorale worker bm25`, and the file of what it says."""
    said = home / "worker.log"
    with said.open("w") as log:
        variables = {**os.environ, "CHORALE_HOME": str(home), **environment}
        process = start_module(
            "cli", "worker", "bm25", environment=variables, out=log.fileno(), err=log.fileno()
        )
        try:
            yield process, said
        finally:
            process.kill()


def wait_for(words: str, process: ForkedProcess, said: Path) -> None:
    def has_said_it() -> bool:
        assert process.poll() is None, said.read_text()
        return words in said.read_text()

    until(has_said_it, 60)


@pytest.mark.slow
def test_workers_that_start_while_redis_is_away_work_when_it_is_back(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(LOCAL + branch("bm25"))
    with (
        RedisServer(appendonly=True) as redis,
        RunningPipeline(redis, queues=[], pipeline_file=file) as running,
    ):
        running.index()
        redis.stop()
        with worker(running.home, **running.environment) as (process, said):
            wait_for("waits for Redis", process, said)
            for queue in QUEUES:
                running.start(queue)
            time.sleep(3 * AGAIN_S)
            assert said.read_text().count("waits for Redis") == 1
            assert f"the Redis at {redis.url} does not answer" in said.read_text()
            redis.start()
            running.wait_ready()
            answer = running.client().retrieve("Who pays for repairs?", timeout_s=20)
            assert (answer.status, answer.hits[0].document_id) == ("complete", "repairs")
            assert process.poll() is None, said.read_text()


@pytest.mark.slow
def test_a_worker_whose_login_redis_refuses_says_what_to_do(
    tmp_path: Path, own_redis_server: RedisServer
) -> None:
    url = own_redis_server.url.replace("://", "://worker:opensesame@")
    own_redis_server.client().acl_setuser("worker", enabled=True, passwords=["+another"])
    with worker(tmp_path, CHORALE_REDIS_URL=url) as (process, said):
        wait_for("waits for Redis", process, said)
        assert "refuses the login" in said.read_text()
        assert "correct user and password in CHORALE_REDIS_URL" in said.read_text()
        assert "opensesame" not in said.read_text()

        # It may log in now, and nothing else.
        own_redis_server.client().acl_setuser("worker", enabled=True, passwords=["+opensesame"])
        wait_for("does not allow this login to do that", process, said)
        assert "does not answer" not in said.read_text()


@pytest.mark.slow
def test_each_line_of_a_worker_that_is_told_to_stop_before_it_is_ready_is_one_object(
    tmp_path: Path, own_redis_server: RedisServer
) -> None:
    environment = {"CHORALE_REDIS_URL": own_redis_server.url, "CHORALE_BROKER_URL": "redis://127.0.0.1:1/0"}
    with worker(tmp_path, CHORALE_LOG_FORMAT="json", **environment) as (process, said):
        wait_for("broker unreachable", process, said)
        process.terminate()
        assert process.wait(20) == 0
        events = [json.loads(line)["event"] for line in said.read_text().splitlines()]
    assert "broker unreachable" in events


@pytest.mark.slow
def test_a_worker_whose_login_rabbitmq_refuses_says_so_once_and_waits(
    tmp_path: Path, own_redis_server: RedisServer
) -> None:
    url = need("rabbitmq", "it is the broker that refuses the login")
    with own_queues(url, ["chorale.bm25"]):
        refused = f"amqp://nobody:opensesame@{url.rpartition('@')[2]}"
        environment = {"CHORALE_REDIS_URL": own_redis_server.url, "CHORALE_BROKER_URL": refused}
        with worker(tmp_path, **environment) as (process, said):
            wait_for("broker unreachable", process, said)
            time.sleep(2.5)
            assert process.poll() is None, said.read_text()
            assert said.read_text().count("broker unreachable") == 1
            assert "ACCESS_REFUSED" in said.read_text()
            assert "Traceback" not in said.read_text()
            assert "opensesame" not in said.read_text()
            process.terminate()
            assert process.wait(20) == 0
