"""An index of OpenSearch with somebody else's mapping is searched by the same stores as one of Elasticsearch, but for the form of vectors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import httpx
import pytest

from search.engines.http.source import HttpSource
from search.kinds import open_http_source
from tests.integration.search.test_existing_elasticsearch import (
    MAPPING,
    PAPERS,
    ids,
    options_on_the_page,
    ranking_of,
)
from tests.support.servers.opensearch_server import OpenSearchServer

pytestmark = pytest.mark.slow

VECTORS = {"type": "knn_vector", "dimension": 4}
METHOD = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"}
PLAIN = {"analysis": {"analyzer": {"chorale": {"type": "standard"}}}}
QUESTION = "rent rents"
"""The server has no stemmer."""


@pytest.fixture(scope="module")
def stores(
    server: OpenSearchServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, HttpSource]]:
    index = f"{server.url}/papers"
    fields: dict[str, Any] = {**MAPPING["properties"], "vektor": {**VECTORS, "method": METHOD}}
    settings = {"index.knn": True, "number_of_replicas": 0, **PLAIN}
    body = {"settings": settings, "mappings": {"dynamic": "strict", "properties": fields}}
    created = httpx.put(index, json=body, timeout=60)
    assert created.is_success, created.text
    lines = [line for id_, paper in PAPERS.items() for line in ({"index": {"_id": id_}}, paper)]
    written = httpx.post(
        f"{index}/_bulk?refresh=true",
        content="".join(f"{json.dumps(line)}\n" for line in lines),
        headers={"content-type": "application/x-ndjson"},
        timeout=60,
    )
    assert not written.json()["errors"]
    made = dict(options_on_the_page(index, tmp_path_factory))
    nearest = {"vector": "{vector}", "k": "{depth}", "filter": "{filter}"}
    body = {"size": "{depth}", "query": {"knn": {"vektor": nearest}}}
    made["paper_vectors"] = {**made["paper_vectors"], "body": body}
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(closing(open_http_source(name, options)))
            for name, options in made.items()
        }


def test_words_and_vectors_are_found_with_and_without_filters(stores: dict[str, HttpSource]) -> None:
    def answer(name: str, **options: Any) -> list[str]:
        return ids(ranking_of(stores[name], QUESTION, timeout_s=60.0, **options))

    assert set(answer("papers")) == {"papers/miete", "papers/kaution", "papers/leer"}
    assert answer("paper_vectors", depth=2) == ["papers/miete", "papers/kaution"]
    for name in stores:
        for filters in (
            {"topic": ["Geld", "Küche"]},
            {"year": {"gte": 2020}, "topic": "Recht"},
            {"published_at": {"gte": "2024-05-01T10:00:00Z"}},
            {"topic": {"exists": True, "not": "Küche des Hauses"}, "year": 2022},
        ):
            assert answer(name, depth=1, filters=filters) == ["papers/kaution"], filters
        assert set(answer(name, filters={"published_at": "2024-05-01"})) == {"papers/miete", "papers/kaution"}
