"""Searching a store by text, by vector, or both, for the contracts."""

from __future__ import annotations

from typing import Any

import pytest

from models.documents import Manifest, Vector
from models.hits import Ranking
from search.protocol import Search
from tests.contracts.store_documents import EAST, MANIFEST, questions
from tests.support.stores.one_engine import OneEngine


def asking(**options: Any) -> Search:
    return Search(**{"depth": 10, "timeout_s": 30.0, **options})


class Searching:
    """Inherit, and provide a `store` fixture."""

    has_vectors = True
    """Whether the store answers `search_vectors` and `vectors`."""
    manifest: Manifest = MANIFEST

    @pytest.fixture(autouse=True)
    def _namespace(self, store: OneEngine) -> None:
        store.create("ns", self.manifest)

    def passage_ids(self, store: OneEngine, text: str, **options: Any) -> list[str]:
        (ranking,) = store.search_text("ns", [text], asking(**options))
        return [hit.passage_id for hit in ranking.hits]

    def near(self, store: OneEngine, vector: Vector, **options: Any) -> list[str]:
        (ranking,) = store.search_vectors("ns", questions(vector), asking(**options))
        return [hit.passage_id for hit in ranking.hits]

    def rankings(
        self, store: OneEngine, text: str, *, namespace: str = "ns", **options: Any
    ) -> list[Ranking]:
        """The ranking of each branch that the store has."""
        search = asking(**options)
        rankings = store.search_text(namespace, [text], search)
        if self.has_vectors:
            rankings += store.search_vectors(namespace, questions(EAST), search)
        return rankings

    def finds(self, store: OneEngine, passage_ids: list[str], text: str, **options: Any) -> bool:
        """Whether every branch finds exactly these passages in this order."""
        rankings = self.rankings(store, text, **options)
        return all([hit.passage_id for hit in ranking.hits] == passage_ids for ranking in rankings)
