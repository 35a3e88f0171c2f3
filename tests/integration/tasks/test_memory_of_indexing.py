"""How much memory an index worker keeps after many messages."""

from __future__ import annotations

import psutil
import pytest
from chorale_client.wire_names import QUEUE_INDEX

from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer

FIRST, ALL, DOCUMENTS = 5, 35, 10
"""`FIRST` and `ALL` are cycles."""


@pytest.mark.long
def test_an_index_worker_does_not_grow_by_documents_that_come_and_go() -> None:
    environment = {"CHORALE_EMBEDDER_BACKEND": "synthetic"}
    with (
        RedisServer() as server,
        RunningPipeline(
            server,
            queues=[QUEUE_INDEX],
            environment=environment,
            preload="import tests.bench.synthetic_corpus\n",
        ) as pipeline,
    ):
        client, after = pipeline.client(), list[int]()
        worker = psutil.Process(pipeline.processes[QUEUE_INDEX].pid)
        for cycle in range(ALL):
            texts = [
                f"{cycle} {' '.join(f'w{(at * n) % 500}' for n in range(150))}" for at in range(DOCUMENTS)
            ]
            handed_in = [{"id": f"d{at}", "text": text} for at, text in enumerate(texts)]
            assert client.wait_visible(client.upsert("ns", handed_in), wait_s=60).added == DOCUMENTS
            gone = client.delete("ns", [f"d{at}" for at in range(DOCUMENTS)])
            assert client.wait_visible(gone, wait_s=60).deleted == DOCUMENTS
            after.append(worker.memory_info().rss)
    # Without a limit of glibc's arenas it nearly doubled.
    assert after[-1] < 1.15 * after[FIRST]
