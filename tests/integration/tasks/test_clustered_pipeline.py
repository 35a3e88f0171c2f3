"""Words in Elasticsearch, vectors in Weaviate: what one of them lacks, the other gives."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from config.pipeline import load_pipeline
from config.settings import Settings
from models.errors import NotConfigured, StoreUnavailable
from tasks.resources import Resources
from tasks.texts import texts_of
from tests.elasticsearch_server import address, corner
from tests.pipeline import CORPUS, RunningPipeline
from tests.redis_server import RedisServer, free_port
from tests.weaviate_server import shared_endpoint

QUEUES = ["chorale.retrieve", "chorale.all", "chorale.fusion"]
VECTORS = """
[stores.vectors]
kind = "weaviate"
options = {{ url = "{weaviate}", grpc_port = {port}, collection = "{collection}", texts = false }}
[branches.vector]
kind = "vector"
group = "dense"
store = "vectors"
queue = "chorale.all"
"""
PIPELINE = (
    """
default_configuration = "all"
[stores.texts]
kind = "elasticsearch"
options = {{ url = "{url}", prefix = "{prefix}" }}
[branches.bm25]
kind = "bm25"
group = "lexical"
store = "texts"
queue = "chorale.all"
[configurations.all]
method = "rrf"
[configurations.vectors]
method = "rrf"
branches = ["vector"]
"""
    + VECTORS
)


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    endpoint = shared_endpoint()
    with corner() as prefix:
        yield {
            "url": address(),
            "prefix": prefix,
            "weaviate": endpoint.url,
            "port": endpoint.grpc_port,
            "collection": endpoint.collection,
        }
    for name in ("Passage", "Namespace"):
        httpx.delete(f"{endpoint.url}/v1/schema/{endpoint.collection}{name}", timeout=30)


@pytest.fixture(scope="module")
def running(declared: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPipeline]:
    file = tmp_path_factory.mktemp("clustered") / "pipeline.toml"
    file.write_text(PIPELINE.format(**declared))
    with RedisServer() as server, RunningPipeline(server, pipeline_file=file, queues=QUEUES) as running:
        running.index()
        yield running
        running.resources.writing_store.close()


@contextmanager
def with_pipeline(folder: Path, text: str) -> Iterator[Resources]:
    file = folder / "pipeline.toml"
    file.write_text(text)
    resources = Resources(Settings(home=folder), load_pipeline(file), "redis://127.0.0.1:1/0")
    yield resources
    resources.clustered.close()


def soon() -> float:
    return time.monotonic() + 20


def test_hits_of_a_store_without_texts_have_those_of_another(running: RunningPipeline) -> None:
    answer = running.client().retrieve(
        "Who pays for repairs?", configuration="vectors", include=["metadata", "texts"], timeout_s=20
    )
    assert (answer.status, answer.degraded) == ("complete", ())
    assert [hit.found_by for hit in answer.hits] == [("vector",)] * len(CORPUS)
    assert {hit.document_id: (hit.title, hit.text) for hit in answer.hits} == CORPUS


def test_where_no_store_has_texts_it_says_what_to_declare(
    running: RunningPipeline, declared: dict[str, Any], tmp_path: Path
) -> None:
    with (
        with_pipeline(tmp_path, VECTORS.format(**declared)) as resources,
        pytest.raises(NotConfigured, match="texts = true"),
    ):
        texts_of(resources, "vectors", "default", ["repairs#0"], ends_at_s=soon())


def test_where_the_store_with_the_texts_is_away_it_is_named(
    running: RunningPipeline, declared: dict[str, Any], tmp_path: Path
) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    with (
        with_pipeline(tmp_path, PIPELINE.format(**declared | {"url": nobody})) as resources,
        pytest.raises(StoreUnavailable, match=nobody),
    ):
        texts_of(resources, "vectors", "default", ["repairs#0"], ends_at_s=soon())
