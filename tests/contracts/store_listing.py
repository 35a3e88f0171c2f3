"""What every store promises about listing documents by their metadata (`search.protocol.Lists`)."""

from __future__ import annotations

from typing import Any

import pytest

from models.errors import BadIndex, StoreTimeout
from models.hits import Ranking
from tests.contracts.store_documents import document
from tests.contracts.store_searches import Searching, asking
from tests.support.stores.one_engine import OneEngine

DOCUMENTS: dict[str, dict[str, Any]] = {
    "a": {"day": "2024-05-01", "kind": "x"},
    "b": {"day": "2024-05-01T02:00:00+03:00", "kind": "x"},
    "c": {"day": "2023-12-31T23:00:00-02:00", "kind": "y"},
    "d": {"day": 7, "kind": "x"},
    "e": {"day": [9, 3], "kind": "x"},
    "f": {"day": "soon", "kind": "x"},
    "g": {"kind": "x"},
    "h": {"day": [], "kind": "x"},
    "i": {"day": "2024-05-01", "kind": "x"},
}
"""In UTC, b is the evening of April 30 and c the first hour of the year."""


class ListingContract(Searching):
    """Documents in the order of a field."""

    @pytest.fixture
    def filled(self, store: OneEngine) -> OneEngine:
        store.upsert(
            "ns", [document(name, "one", "two", metadata=fields) for name, fields in DOCUMENTS.items()]
        )
        return store

    def listed(self, store: OneEngine, order_by: str = "day", **options: Any) -> Ranking:
        descending = options.pop("descending", True)
        search = asking(**{"depth": 50, **options})
        return store.list_documents("ns", search, order_by=order_by, descending=descending)

    def names(self, store: OneEngine, **options: Any) -> str:
        return "".join(hit.document_id for hit in self.listed(store, **options).hits)

    def test_a_listing_is_in_the_order_of_its_field(self, filled: OneEngine) -> None:
        assert self.names(filled) == "ed" + "aibc" + "f" + "gh"
        assert self.names(filled, descending=False) == "ed" + "cbai" + "f" + "gh"
        assert self.names(filled, order_by="nothing") == "abcdefghi"

    def test_each_document_is_listed_once_by_its_first_passage_with_score_0(self, filled: OneEngine) -> None:
        hits = self.listed(filled).hits
        assert {hit.passage_id for hit in hits} == {f"{name}#0" for name in DOCUMENTS}
        assert {hit.score for hit in hits} == {0.0}
        assert {hit.content_hash for hit in hits} == {f"hash of {name}" for name in DOCUMENTS}

    def test_a_listing_keeps_filters_exclusions_and_depth(self, filled: OneEngine) -> None:
        ranking = self.listed(filled, filters={"kind": "x"}, exclude_ids=["a"], depth=3)
        assert "".join(hit.document_id for hit in ranking.hits) == "edi"
        assert ranking.total_matches == 7
        unknown = self.listed(filled, filters={"colour": "red"})
        assert unknown.hits == ()
        assert unknown.warnings == ("filter 'colour': no document has this field, so nothing matches",)

    def test_a_listing_of_named_documents_has_those_that_exist_and_meet_the_filters(
        self, filled: OneEngine
    ) -> None:
        ids = ["g", "a", "nobody", "e"]
        assert self.names(filled, only_ids=ids) == "eag"
        assert self.names(filled, only_ids=ids, exclude_ids=["e"], filters={"kind": "x"}) == "ag"
        assert self.names(filled, only_ids=ids, filters={"kind": "y"}) == ""
        assert self.names(filled, only_ids=["nobody"]) == ""

    @pytest.mark.parametrize("condition", [{"not": "x"}, {"exists": False}])
    def test_a_document_without_a_field_meets_what_asks_for_its_absence(
        self, filled: OneEngine, condition: dict[str, Any]
    ) -> None:
        assert self.names(filled, only_ids=["h"], filters={"colour": condition}) == "h"
        filled.upsert("ns", [document("j", "one", metadata={"colour": "x"})])
        assert self.names(filled, only_ids=["h", "j"], filters={"colour": condition}) == "h"

    def test_a_listing_sees_replacements_and_deletions(self, filled: OneEngine) -> None:
        filled.upsert("ns", [document("f", "new", metadata={"day": 100})])
        filled.delete("ns", ["e"])
        assert self.names(filled) == "fd" + "aibc" + "gh"

    def test_a_listing_of_an_unknown_namespace_fails_and_one_ends_at_its_timeout(
        self, filled: OneEngine
    ) -> None:
        with pytest.raises(BadIndex, match="nowhere"):
            filled.list_documents("nowhere", asking(depth=1), order_by="day", descending=True)
        with pytest.raises(StoreTimeout):
            self.listed(filled, timeout_s=-1)

    def test_many_documents_are_listed_by_the_first_of_many_passages(self, store: OneEngine) -> None:
        long = document("long", *["pear"] * 12, metadata={"place": 100.5})
        others = [document(f"d{n:03}", "pear", metadata={"place": n}) for n in range(200)]
        store.upsert("ns", [*others, long])
        ranking = self.listed(store, order_by="place", depth=150)
        downwards = [f"d{n:03}#0" for n in range(199, -1, -1)]
        assert [hit.passage_id for hit in ranking.hits] == [*downwards[:99], "long#0", *downwards[99:149]]
        assert ranking.total_matches == 201
