"""A pipeline whose only store is an Elasticsearch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.pipelines.pipeline import CORPUS, RunningPipeline
from tests.support.servers.elasticsearch_server import address, corner
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

QUEUES = ["chorale.retrieve", "chorale.all", "chorale.fusion"]
KINDS = ("bm25", "vector", "hyde")
STORE = """
[stores.cluster]
kind = "elasticsearch"
options = {{ url = "{url}", prefix = "{prefix}", vectors = true }}
"""
BRANCH = """
[branches.{kind}]
kind = "{kind}"
group = "{kind}"
store = "cluster"
queue = "chorale.all"
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPipeline]:
    file = tmp_path_factory.mktemp("elasticsearch") / "pipeline.toml"
    with corner() as prefix, RedisServer() as server:
        declared = STORE.format(url=address(), prefix=prefix)
        file.write_text(declared + "".join(BRANCH.format(kind=kind) for kind in KINDS))
        with RunningPipeline(server, pipeline_file=file, queues=QUEUES) as running:
            running.index()
            yield running
            running.resources.writing_store.close()


def test_every_branch_finds_the_document(running: RunningPipeline) -> None:
    answer = running.client().retrieve("Who pays for repairs?", include=["metadata", "texts"], timeout_s=20)
    assert (answer.status, answer.hits[0].document_id) == ("complete", "repairs")
    assert set(answer.hits[0].found_by) == set(KINDS)
    assert answer.hits[0].title == "Repairs"
    assert answer.hits[0].text == CORPUS["repairs"][1]


def test_a_cached_answer_gives_way_to_what_was_written(running: RunningPipeline) -> None:
    client = running.client()
    asked = "What is a zeppelin?"
    first = client.retrieve(asked, timeout_s=20)
    # An answer is kept after its end.
    until(lambda: client.retrieve(asked, timeout_s=20).cached)
    running.index({"zeppelin": ("Zeppelin", "A zeppelin is an airship with a rigid frame.")})
    second = client.retrieve(asked, timeout_s=20)
    assert not second.cached
    assert "zeppelin" not in {hit.document_id for hit in first.hits}
    assert second.hits[0].document_id == "zeppelin"
