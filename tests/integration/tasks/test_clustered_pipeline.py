"""Words in Elasticsearch, vectors in Weaviate: what one of them lacks, the other gives."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from chorale_client import Answer

from assembly.pipeline import load_pipeline
from assembly.resources import Resources
from config.settings import Settings
from models.errors import NotConfigured, StoreUnavailable
from tasks.request.passage_texts import texts_of
from tests.support.pipelines.pipeline import CORPUS, RunningPipeline
from tests.support.servers.redis_server import RedisServer, free_port
from tests.support.stores.two_engines import Options, shared_engines, store_and_branch, texts_and_vectors

QUEUES = ["chorale.retrieve", "chorale.all", "chorale.fusion"]
SCORES = """
[configurations.rrf]
method = "rrf"
[configurations.scores]
method = "dbsf"
complete_scores = true
"""


@pytest.fixture(scope="module")
def engines() -> Iterator[tuple[Options, Options]]:
    with shared_engines(texts=False) as options:
        yield options


@pytest.fixture(scope="module")
def running(
    engines: tuple[Options, Options], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningPipeline]:
    file = tmp_path_factory.mktemp("clustered") / "pipeline.toml"
    file.write_text(texts_and_vectors(*engines, queue="chorale.all") + SCORES)
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
        "Who pays for repairs?", branches=["vector"], include=["metadata", "texts"], timeout_s=20
    )
    assert (answer.status, answer.degraded) == ("complete", ())
    assert [hit.found_by for hit in answer.hits] == [("vector",)] * len(CORPUS)
    assert {hit.document_id: (hit.title, hit.text) for hit in answer.hits} == CORPUS


def test_each_store_scores_what_only_the_other_found_as_it_would_have_ranked_it(
    running: RunningPipeline,
) -> None:
    # BM25 finds `bread` alone, and of the five documents the vectors find two others.
    bread = {"kind": "keyword", "text": "bread", "replace": True}
    question: dict[str, Any] = {"text": "When may a tenant leave the flat?", "variants": [bread]}

    def asked(**options: Any) -> Answer:
        return running.client().retrieve(
            question, include=["ids", "explanation"], cache="bypass", timeout_s=20, **options
        )

    alone = {name: asked(branches=[name]).hits for name in ("bm25", "vector")}
    scores = {name: {hit.document_id: hit.branches[name].score for hit in alone[name]} for name in alone}
    answer = asked(configuration="scores", depth=1, top_k=1, weights={"bm25": 1.0, "vector": 0.01})
    assert answer.status == "complete"
    [hit] = answer.hits
    assert (hit.document_id, hit.branches["bm25"].rank, hit.branches["vector"].rank) == ("bread", 1, 0)
    for name, said in hit.branches.items():
        assert said.score == pytest.approx(scores[name]["bread"], abs=2e-5)


def test_where_no_store_has_texts_it_says_what_to_declare(
    engines: tuple[Options, Options], tmp_path: Path
) -> None:
    vectors = store_and_branch("vectors", "weaviate", engines[1], "vector", "dense")
    with (
        with_pipeline(tmp_path, vectors) as resources,
        pytest.raises(NotConfigured, match="texts = true"),
    ):
        texts_of(resources, "vectors", "default", ["repairs#0"], ends_at_s=soon())


def test_where_the_store_with_the_texts_is_away_it_is_named(
    engines: tuple[Options, Options], tmp_path: Path
) -> None:
    texts, vectors = engines
    nobody = f"http://127.0.0.1:{free_port()}"
    with (
        with_pipeline(tmp_path, texts_and_vectors({**texts, "url": nobody}, vectors)) as resources,
        pytest.raises(StoreUnavailable, match=nobody),
    ):
        texts_of(resources, "vectors", "default", ["repairs#0"], ends_at_s=soon())
