"""A pipeline whose only store is an Elasticsearch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline import CORPUS
from tests.support.pipelines.pipeline_files import branch
from tests.support.servers.elasticsearch_server import address, corner
from tests.support.servers.redis_server import RedisServer

KINDS = ("bm25", "vector", "hyde")
STORE = """
[stores.cluster]
kind = "elasticsearch"
options = {{ url = "{url}", prefix = "{prefix}", vectors = true }}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneProcess]:
    file = tmp_path_factory.mktemp("elasticsearch") / "pipeline.toml"
    with corner() as prefix, RedisServer() as server:
        store = STORE.format(url=address(), prefix=prefix)
        file.write_text(store + "".join(branch(kind, kind, store="cluster") for kind in KINDS))
        with OneProcess(server, pipeline_file=file) as here:
            here.index()
            yield here
            here.resources.writing_store.close()


def test_every_branch_finds_the_document(cluster: OneProcess) -> None:
    answer = cluster.ask("Who pays for repairs?", include=["metadata", "texts"])
    assert answer.status == "complete"
    best = answer.hits[0]
    assert (best.document_id, set(best.found_by)) == ("repairs", set(KINDS))
    assert (best.title, best.text) == ("Repairs", CORPUS["repairs"][1])


def test_a_cached_answer_gives_way_to_what_was_written(cluster: OneProcess) -> None:
    first, again = (cluster.ask("What is a zeppelin?") for _ in range(2))
    assert again.cached
    cluster.index({"zeppelin": ("Zeppelin", "A zeppelin is an airship with a rigid frame.")})
    second = cluster.ask("What is a zeppelin?")
    assert not second.cached
    assert "zeppelin" not in {hit.document_id for hit in first.hits}
    assert second.hits[0].document_id == "zeppelin"
