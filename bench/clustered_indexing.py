"""How fast short documents with given vectors come into Elasticsearch and Weaviate: `python -m bench.clustered_indexing`.

The servers are those of CHORALE_TEST_ELASTICSEARCH_URL and CHORALE_TEST_WEAVIATE_URL; the table of documents is an
SQLite file, or the database of `--documents-url`.  What it wrote is deleted at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import uuid
from collections.abc import Iterator

import httpx
import numpy as np

from models.documents import Document, Manifest, Passage
from models.elasticsearch_endpoint import ElasticsearchEndpoint
from models.weaviate_endpoint import WeaviateEndpoint
from search.several_stores.database import Database
from search.several_stores.store import ClusteredStore
from search.several_stores.document_table import DocumentTable
from search.elasticsearch.store import ElasticsearchStore
from search.weaviate.store import WeaviateStore

DIMENSION = 384
WORDS = 60
"""Of a document: an abstract's first sentences."""
NAMESPACE = "bench"


def batches(documents: int, size: int) -> Iterator[list[Document]]:
    """Documents of random words, as frequent as words are (Zipf), with random vectors; always the same."""
    chance = np.random.default_rng(0)
    for first in range(0, documents, size):
        count = min(size, documents - first)
        vectors = chance.standard_normal((count, DIMENSION), np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        words = chance.zipf(1.3, (count, WORDS)) % 50_000
        yield [
            Document(
                document_id=f"bench/{first + place}",
                source="bench",
                title=f"Document {first + place}",
                passages=(
                    Passage(
                        f"bench/{first + place}#0",
                        0,
                        " ".join(f"w{word}" for word in words[place]),
                        vector=vectors[place],
                    ),
                ),
                metadata={"year": 1990 + place % 30},
                revision="1",
            )
            for place in range(count)
        ]


def measure(store: ClusteredStore, documents: int, batch: int) -> dict[str, object]:
    manifest = Manifest("bench", "en", "bench", "bench", DIMENSION)
    store.create(NAMESPACE, manifest)
    began_s = time.monotonic()
    for one in batches(documents, batch):
        store.upsert(NAMESPACE, one)
    took_s = time.monotonic() - began_s
    unwritten = store.unwritten(NAMESPACE)
    return {
        "v": 1,
        "documents": documents,
        "batch": batch,
        "took_s": round(took_s, 1),
        "documents_per_s": round(documents / took_s, 1),
        "unwritten": len(unwritten),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=1_000)
    parser.add_argument("--documents-url", help="SQLAlchemy address of the table of documents")
    asked = parser.parse_args()
    elasticsearch_url = os.environ["CHORALE_TEST_ELASTICSEARCH_URL"]
    weaviate_url = os.environ["CHORALE_TEST_WEAVIATE_URL"]
    mark = uuid.uuid4().hex[:10]
    elasticsearch = ElasticsearchStore(ElasticsearchEndpoint(url=elasticsearch_url, prefix=f"b{mark}"))
    weaviate = WeaviateStore(
        WeaviateEndpoint(
            url=weaviate_url,
            grpc_port=int(os.environ.get("CHORALE_TEST_WEAVIATE_GRPC_PORT", "50051")),
            collection=f"Bench{mark}",
            texts=False,
        )
    )
    with tempfile.TemporaryDirectory(prefix="chorale-bench-") as folder:
        database = Database(asked.documents_url or f"sqlite:///{folder}/documents.db")
        store = ClusteredStore({"texts": elasticsearch, "vectors": weaviate}, DocumentTable(database))
        try:
            print(json.dumps(measure(store, asked.documents, asked.batch)))
        finally:
            store.drop(NAMESPACE)
            store.close()
            _sweep(elasticsearch_url, weaviate_url, mark)


def _sweep(elasticsearch_url: str, weaviate_url: str, mark: str) -> None:
    """Delete what outlives a namespace."""
    for address in (
        f"{elasticsearch_url}/b{mark}.namespaces",
        f"{elasticsearch_url}/_index_template/b{mark}-namespaces",
        f"{weaviate_url}/v1/schema/Bench{mark}Passage",
        f"{weaviate_url}/v1/schema/Bench{mark}Namespace",
    ):
        httpx.delete(address, timeout=30)


if __name__ == "__main__":
    main()
