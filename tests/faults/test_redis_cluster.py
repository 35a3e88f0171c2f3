"""Redis Cluster is not supported: every process and command says so in one sentence, and nothing is started again and again."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from chorale_client import AsyncChorale, Chorale, ServiceUnavailable

from cli.exit_codes import UNSUPPORTED
from tests.support.pipelines.forked_children import run_module
from tests.support.servers.redis_server import RedisServer, free_port
from tests.support.waiting import until

SENTENCE = "Redis Cluster is not supported"


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster with one node, which has all slots."""
    with RedisServer(port=free_port(), cluster_enabled="yes", cluster_port=str(free_port())) as server:
        with server.client() as client:
            client.cluster("addslotsrange", 0, 16383)
            until(lambda: client.cluster("info")["cluster_state"] == "ok")
        yield server.tcp_url


def chorale(*words: str, redis_url: str, home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CHORALE_HOME": str(home), "CHORALE_REDIS_URL": redis_url}
    return run_module("cli", *words, environment=environment, timeout_s=100)


@pytest.mark.parametrize("command", [["worker", "bm25"], ["sweeper"], ["up"]])
def test_a_process_ends_with_one_sentence_and_an_exit_code_that_means_do_not_start_it_again(
    cluster: str, tmp_path: Path, command: list[str]
) -> None:
    ended = chorale(*command, redis_url=cluster, home=tmp_path)
    assert ended.returncode == UNSUPPORTED == 78
    assert ended.stderr.count(SENTENCE) == 1
    assert "docs/operate.md" in ended.stderr
    assert "Traceback" not in ended.stderr + ended.stdout


def test_the_doctor_says_so(cluster: str, tmp_path: Path) -> None:
    ended = chorale("doctor", "--json", redis_url=cluster, home=tmp_path)
    findings = [
        finding["what"] for check in json.loads(ended.stdout)["checks"] for finding in check["findings"]
    ]
    assert len([what for what in findings if SENTENCE in what]) == 1


def test_a_client_gets_it_as_an_error(cluster: str) -> None:
    with closing(Chorale(cluster)) as client, pytest.raises(ServiceUnavailable, match=SENTENCE):
        client.retrieve("bread", timeout_s=1)

    async def ask() -> None:
        async with AsyncChorale(cluster) as client:
            await client.retrieve("bread", timeout_s=1)

    with pytest.raises(ServiceUnavailable, match=SENTENCE):
        asyncio.run(ask())
