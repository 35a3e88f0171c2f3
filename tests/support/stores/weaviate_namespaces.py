"""Documents that tests of Weaviate put into namespaces, and searches that find them."""

from __future__ import annotations

from typing import Any

import numpy as np

from models.documents import Document, Matrix, Passage
from search.engines.weaviate.store import WeaviateStore
from search.protocol import Search


def hit_ids(store: WeaviateStore, text: str, **options: Any) -> list[str]:
    (ranking,) = store.search_text("ns", [text], Search(**{"depth": 10, "timeout_s": 30.0, **options}))
    return [hit.passage_id for hit in ranking.hits]


def normalised(rows: Matrix) -> Matrix:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def vector_documents(vectors: Matrix) -> list[Document]:
    return [
        Document(f"d{i:05}", "docs", "", (Passage(f"d{i:05}#0", 0, "x", vector=vector),), {"half": i % 2})
        for i, vector in enumerate(vectors)
    ]


def tenants(store: WeaviateStore) -> list[str]:
    async def work(client: Any) -> list[str]:
        return sorted(await client.collections.use(f"{store._endpoint.collection}Passage").tenants.get())

    return store._connection.run(work, 30)
