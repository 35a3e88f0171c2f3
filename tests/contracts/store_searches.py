"""Searching a store by text, by vector, or both, for the contracts."""

from __future__ import annotations

from typing import Any

import pytest

from models.documents import Manifest, Vector
from models.hits import Ranking
from search.protocol import Search, Store
from tests.contracts.store_documents import EAST, MANIFEST, questions


def asking(**options: Any) -> Search:
    return Search(**{"depth": 10, "timeout_s": 30.0, **options})


class Searching:
    """Inherit, provide a `store` fixture, and set False what the store cannot do."""

    has_text = True
    """Whether the store answers `search_text`."""
    has_vectors = True
    """Whether the store answers `search_vectors` and `vectors`."""
    manifest: Manifest = MANIFEST

    @pytest.fixture(autouse=True)
    def _namespace(self, store: Store) -> None:
        store.create("ns", self.manifest)

    def found(self, store: Store, text: str, **options: Any) -> list[str]:
        (ranking,) = store.search_text("ns", [text], asking(**options))
        return [hit.passage_id for hit in ranking.hits]

    def near(self, store: Store, vector: Vector, **options: Any) -> list[str]:
        (ranking,) = store.search_vectors("ns", questions(vector), asking(**options))
        return [hit.passage_id for hit in ranking.hits]

    def rankings(
        self, store: Store, text: str, vector: Vector = EAST, *, namespace: str = "ns", **options: Any
    ) -> list[Ranking]:
        """The ranking of each branch that the store has."""
        search = asking(**options)
        found = []
        if self.has_text:
            found += store.search_text(namespace, [text], search)
        if self.has_vectors:
            found += store.search_vectors(namespace, questions(vector), search)
        return found

    def finds(
        self, store: Store, passage_ids: list[str], text: str, vector: Vector = EAST, **options: Any
    ) -> bool:
        """Whether every branch finds exactly these passages in this order."""
        rankings = self.rankings(store, text, vector, **options)
        return [[hit.passage_id for hit in ranking.hits] for ranking in rankings] == [
            passage_ids for _ in rankings
        ]
