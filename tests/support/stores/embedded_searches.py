"""Searches in the namespace `ns` of an embedded store."""

from __future__ import annotations

from search.embedded.store import EmbeddedStore
from search.protocol import Search
from tests.contracts.store_documents import EAST, questions


def names(store: EmbeddedStore, text: str, depth: int = 1_000) -> list[str]:
    return [
        hit.document_id for hit in store.search_text("ns", [text], Search(depth=depth, timeout_s=30))[0].hits
    ]


def near(store: EmbeddedStore, depth: int = 1_000) -> list[str]:
    (ranking,) = store.search_vectors("ns", questions(EAST), Search(depth=depth, timeout_s=30))
    return [hit.document_id for hit in ranking.hits]
