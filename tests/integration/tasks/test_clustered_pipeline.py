"""Words in Elasticsearch, vectors in Weaviate: what one of them lacks, the other gives.

`test_stores_away_at_the_start.py` says that hits of the one have the texts of the other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chorale_client import Answer

from tests.support.pipelines.one_process import OneProcess
from tests.support.servers.redis_server import RedisServer
from tests.support.stores.two_engines import shared_engines, texts_and_vectors

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
