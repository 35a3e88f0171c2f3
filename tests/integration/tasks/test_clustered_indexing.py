"""Words in Elasticsearch, vectors in Weaviate: documents go into both at once, and what one of them lacks, the other gives.

`test_stores_away_at_the_start.py` says that hits of the one have the texts of the other.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from chorale_client import Answer

from search.engines.weaviate.store import WeaviateStore
from tests.support.command_line import in_process
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.stores.one_engine import indexed_revisions
from tests.support.stores.two_engines import shared_engines, texts_and_vectors

WIKI = [
    {"id": "wiki/tea", "title": "Tea", "text": "Green tea is brewed at eighty degrees."},
    {"id": "wiki/rent", "title": "Rent", "text": "The rent is due on the third working day."},
    {"id": "wiki/nothing"},
]


def stored_ids(running: RunningPipeline) -> list[list[str]]:
    """The ids of the documents in each store."""
    store = running.resources.writing_store
    return [sorted(indexed_revisions(store, "wiki", name)) for name in store.stores]


def verified(running: RunningPipeline, *arguments: str) -> tuple[int, Any]:
    done = in_process("verify", "-n", "wiki", *arguments, "--json", **running.environment)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_what_is_handed_in_is_in_both_stores_and_what_is_lost_is_mended(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    with shared_engines(texts=False) as engines, RedisServer() as server:
        file.write_text(texts_and_vectors(*engines))
        with (
            RunningPipeline(server, pipeline_file=file, queues=["chorale.index"]) as running,
            closing(running.resources.writing_store),
        ):
            client = running.client()
            done = client.wait_visible(client.upsert("wiki", WIKI), wait_s=60)
            assert (done.added, done.error, done.unwritten) == (2, None, {})
            assert done.skipped == ["document 3: no text: 'text' and 'title' are missing or empty"]
            assert not done.is_whole
            assert stored_ids(running) == [["wiki/rent", "wiki/tea"]] * 2
            assert running.resources.generations.in_redis("wiki") == done.generation == 1
            assert running.resources.store("vectors").texts("wiki", ["wiki/tea#0"], timeout_s=5).keys() == {
                "wiki/tea#0"
            }

            again = client.wait_visible(client.upsert("wiki", WIKI[:2]), wait_s=60)
            assert (again.unchanged, again.added, again.generation) == (2, 0, 1)
            gone = client.wait_visible(client.delete("wiki", ["wiki/rent", "unknown"]), wait_s=60)
            assert (gone.deleted, gone.generation, gone.is_whole) == (1, 2, True)
            assert stored_ids(running) == [["wiki/tea"]] * 2

            vectors = running.resources.store("vectors")
            assert isinstance(vectors, WeaviateStore)
            vectors.write(vectors.documents.index("wiki", 30), (), ["wiki/tea"])
            code, report = verified(running, "--check")
            assert (code, report["stores"]["vectors"]["missing"]) == (8, ["wiki/tea"])
            code, report = verified(running)
            assert (code, report["unwritten"]) == (0, {})
            assert stored_ids(running) == [["wiki/tea"]] * 2
            assert not any(running.resources.writing_store.verify("wiki", mends=False).values())


SCORES = """
[configurations.scores]
method = "dbsf"
complete_scores = true
"""


def test_each_store_scores_what_only_the_other_found_as_it_would_have_ranked_it(tmp_path: Path) -> None:
    # BM25 finds `bread` alone, and of the five documents the vectors find two others.
    bread = {"kind": "keyword", "text": "bread", "replace": True}
    question: dict[str, Any] = {"text": "When may a tenant leave the flat?", "variants": [bread]}
    file = tmp_path / "pipeline.toml"
    with shared_engines(texts=False) as engines, RedisServer() as server:
        file.write_text(texts_and_vectors(*engines) + SCORES)
        with OneProcess(server, pipeline_file=file) as here:
            here.index()

            def ask(**options: Any) -> Answer:
                return here.ask(question, include=["ids", "explanation"], cache="bypass", **options)

            scores = {
                name: {hit.document_id: hit.branches[name].score for hit in ask(branches=[name]).hits}
                for name in ("bm25", "vector")
            }
            weights = {"bm25": 1.0, "vector": 0.01}
            answer = ask(configuration="scores", depth=1, top_k=1, weights=weights)
            here.resources.writing_store.close()
    assert answer.status == "complete"
    [hit] = answer.hits
    assert (hit.document_id, hit.branches["bm25"].rank, hit.branches["vector"].rank) == ("bread", 1, 0)
    for name, score in hit.branches.items():
        assert score.score == pytest.approx(scores[name]["bread"], abs=2e-5)
