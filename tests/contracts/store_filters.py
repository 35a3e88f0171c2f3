"""What every store promises of filters and exclusions."""

from __future__ import annotations

from typing import Any

from search.protocol import Store
from tests.contracts.store_documents import document, unit
from tests.contracts.store_searches import Searching

FILTERED: dict[str, dict[str, Any]] = {
    "a": {"year": 2019, "tags": ["x", "y"], "published_at": "2024-05-01", "draft": True},
    "b": {"year": 2020, "tags": "x", "published_at": "2024-05-01T23:30:00Z"},
    "c": {"year": 2021.5, "published_at": "2024-05-02T00:30:00+01:00", "draft": False},
    "d": {"tags": [], "published_at": "2024-05-02", "year": None},
}


CASES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"year": 2020}, "b"),
    ({"year": [2019, 2020, 1]}, "ab"),
    ({"year": {"gte": 2020}}, "bc"),
    ({"year": {"gt": 2019, "lt": 2021}}, "b"),
    ({"tags": "x"}, "ab"),
    ({"tags": ["y", "z"]}, "a"),
    ({"tags": {"exists": True}}, "ab"),
    ({"tags": {"exists": False}}, "cd"),
    ({"tags": {"not": "y"}}, "bcd"),
    ({"tags": {"contains": "X"}}, "ab"),
    ({"draft": True}, "a"),
    ({"draft": False}, "c"),
    ({"published_at": {"lte": "2024-05-01"}}, "abc"),
    ({"published_at": {"gt": "2024-05-01"}}, "d"),
    ({"published_at": {"gte": "2024-05-01T23:00:00Z", "lt": "2024-05-02"}}, "bc"),
    ({"published_at": "2024-05-01"}, "abc"),
    ({"year": {"gte": 2020}, "tags": "x"}, "b"),
    ({"source": "docs"}, "abcd"),
    ({"year": 3000}, ""),
)
"""Filters, and which of the documents of FILTERED they let through."""


class FiltersContract(Searching):
    """Filters and exclusions, the same in every branch."""

    def test_filters_are_exact_in_every_branch(self, store: Store) -> None:
        store.upsert("ns", [document(name, "pear", metadata=held) for name, held in FILTERED.items()])
        for filters, expected in CASES:
            passages = [f"{name}#0" for name in expected]
            assert self.finds(store, passages, "pear", filters=filters), filters

    def test_an_unknown_field_matches_nothing_and_is_named(self, store: Store) -> None:
        store.upsert("ns", [document("a", "pear", metadata={"year": 1})])
        for filters in ({"year": 1, "yaer": 2020}, {"yaer": {"not": 1}}):
            for ranking in self.rankings(store, "pear", filters=filters):
                assert ranking.hits == ()
                assert ["yaer" in warning for warning in ranking.warnings] == [True]
        for known in self.rankings(store, "pear", filters={"year": 2}):
            assert known.warnings == ()

    def test_a_filter_changes_no_score(self, store: Store) -> None:
        held = [
            document(f"d{i}", "pear " * (i + 1), metadata={"n": i % 3}, vectors=(unit(i, 1, 0, 0),))
            for i in range(30)
        ]
        store.upsert("ns", held)
        free = self.rankings(store, "pear", depth=30)
        filtered = self.rankings(store, "pear", depth=30, filters={"n": 1})
        for whole, part in zip(free, filtered, strict=True):
            assert part.hits == tuple(hit for hit in whole.hits if int(hit.document_id[1:]) % 3 == 1)
            assert len(part.hits) == 10

    def test_a_filter_follows_what_is_written(self, store: Store) -> None:
        store.upsert("ns", [document("a", "pear", metadata={"n": 1})])
        assert self.finds(store, ["a#0"], "pear", filters={"n": 1})
        changed = document("a", "pear", metadata={"n": 2})
        store.upsert("ns", [changed, document("b", "pear", metadata={"n": 1})])
        assert self.finds(store, ["b#0"], "pear", filters={"n": 1})
        assert self.finds(store, ["a#0"], "pear", filters={"n": 2})

    def test_excluded_documents_make_room_for_others(self, store: Store) -> None:
        store.upsert("ns", [document(f"d{i}", "pear") for i in range(8)])
        for ranking in self.rankings(store, "pear", exclude_ids=("d0", "d2", "unknown"), depth=2):
            assert [hit.passage_id for hit in ranking.hits][:2] == ["d1#0", "d3#0"]
