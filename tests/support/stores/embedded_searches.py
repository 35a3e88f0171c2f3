"""Searches in the namespace `ns` of an embedded store."""

from __future__ import annotations

from search.protocol import Search
from tests.contracts.store_documents import EAST, questions
from tests.support.stores.one_engine import OneEngine


def names(store: OneEngine, text: str, depth: int = 1_000) -> list[str]:
    return [
        hit.document_id for hit in store.search_text("ns", [text], Search(depth=depth, timeout_s=30))[0].hits
    ]


def near(store: OneEngine, depth: int = 1_000) -> list[str]:
    (ranking,) = store.search_vectors("ns", questions(EAST), Search(depth=depth, timeout_s=30))
    return [hit.document_id for hit in ranking.hits]
