"""Workers that start while nothing listens where their stores should be, and stores that go while they work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chorale_client import Answer

from tests.integration.tasks.answers import ids, reasons
from tests.support.pipelines.pipeline import CORPUS, RunningPipeline
from tests.support.servers.elasticsearch_server import corner, host_and_port
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.tcp_proxy import TcpProxy
from tests.support.servers.weaviate_server import WeaviateServer
from tests.support.stores.two_engines import texts_and_vectors
from tests.support.waiting import until

KEY = "a-key-of-this-test"
QUEUES = ["chorale.retrieve", "chorale.bm25", "chorale.vector", "chorale.fusion"]
TEXTS_AWAY, VECTORS_AWAY = ("search.bm25", "unavailable"), ("search.vector", "unavailable")


def ask(running: RunningPipeline, *branches: str, timeout_s: float = 20) -> Answer:
    options: Any = {"include": ["texts"], "cache": "bypass", "branches": list(branches) or None}
    return running.client().retrieve("Who pays for repairs?", timeout_s=timeout_s, **options)


def missing(answer: Answer) -> set[tuple[str, str]]:
    return {line for line in reasons(answer) if line[0].startswith("search.")}


def test_a_worker_that_starts_without_its_store_says_so_and_finds_it_when_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEAVIATE_KEY", KEY)
    file = tmp_path / "pipeline.toml"
    with (
        corner() as prefix,
        WeaviateServer(key=KEY) as vectors,
        TcpProxy(host_and_port()) as texts,
        RedisServer() as redis,
    ):
        through_the_proxy = {"url": f"http://127.0.0.1:{texts.port}", "prefix": prefix}
        own = {"url": vectors.endpoint().url, "grpc_port": vectors.grpc_port, "api_key_env": "WEAVIATE_KEY"}
        file.write_text(texts_and_vectors(through_the_proxy, {**own, "texts": False}))
        with RunningPipeline(
            redis, queues=[], pipeline_file=file, environment={"CHORALE_BREAKER_FAILURES": "0"}
        ) as running:
            running.index()
            texts.is_refusing = True
            texts.cut()
            vectors.kill()
            for queue in QUEUES:
                running.start(queue)
            running.wait_ready()

            assert missing(ask(running)) == {TEXTS_AWAY, VECTORS_AWAY}
            texts.is_refusing = False
            until(lambda: missing(ask(running)) == {VECTORS_AWAY})
            assert ids(ask(running)) == ids(ask(running, "bm25"))
            vectors.launch()
            until(lambda: ask(running).status == "complete")
            texts_by_id = {hit.document_id: hit.text for hit in ask(running).hits}
            assert texts_by_id == {name: text for name, (_, text) in CORPUS.items()}

            vectors_alone = ids(ask(running, "vector"))
            texts.stall()
            answer = ask(running, timeout_s=3)
            texts.flow()
            assert {where for where, _ in missing(answer)} == {"search.bm25"}
            assert (answer.status, ids(answer)) == ("degraded", vectors_alone)
            until(lambda: ask(running).status == "complete")
            assert [process.poll() for process in running.processes.values()] == [None] * len(QUEUES)
            running.resources.writing_store.close()
