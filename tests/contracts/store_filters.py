"""What every store promises about filters and exclusions."""

from __future__ import annotations

import random
from typing import Any

import pytest

from search.filters import compile_filters
from tests.contracts.store_documents import document, unit
from tests.contracts.store_searches import Searching
from tests.support.stores.one_engine import OneEngine

FILTERED: dict[str, dict[str, Any]] = {
    "a": {"year": 2019, "tags": ["x", "y"], "published_at": "2024-05-01", "draft": True},
    "b": {"year": 2020, "tags": "x", "published_at": "2024-05-01T23:30:00Z"},
    "c": {"year": 2021.5, "published_at": "2024-05-02T00:30:00+01:00", "draft": False},
    "d": {"tags": [], "published_at": "2024-05-02", "year": None},
}
OF_ANY_SIZE: dict[str, dict[str, Any]] = {
    "a": {"text": "first line\nsecond line", "count": 2**53},
    "b": {"text": "x" * 40_000 + "\r\nNeedle" + "y" * 40_000, "count": 2**53 + 1},
    # Nanoseconds since 1970.
    "c": {"text": "\n", "count": 1_714_521_600_000_000_001},
    "d": {"text": ["pin", "needle\tand thread"], "count": -(2**63)},
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
    ({"tags": {"all": ["x", {"not": "y"}]}}, "b"),
    ({"year": {"all": [{"gte": 2020}, {"gte": 2021}, [2020, 2021.5]]}}, "c"),
    ({"nowhere": {"all": [{"not": "x"}]}}, "abcd"),
    ({"nowhere": {"all": ["x"]}}, ""),
    ({"draft": True}, "a"),
    ({"draft": False}, "c"),
    ({"published_at": {"lte": "2024-05-01"}}, "abc"),
    ({"published_at": {"gt": "2024-05-01"}}, "d"),
    ({"published_at": {"gte": "2024-05-01T23:00:00Z", "lt": "2024-05-02"}}, "bc"),
    ({"published_at": "2024-05-01"}, "abc"),
    ({"year": {"gte": 2020}, "tags": "x"}, "b"),
    ({"source": "docs"}, "abcd"),
    ({"year": 3000}, ""),
    ({"nowhere": {"not": "x"}}, "abcd"),
    ({"nowhere": {"exists": False}, "year": 2020}, "b"),
)
"""Filters, and the documents of FILTERED that they match."""

PERIODS: dict[str, dict[str, Any]] = {
    "a": {"at": "2024-01-01", "year": 2024, "code": "2024"},
    "b": {"at": "2024-01-31T23:59:59.999999Z", "year": "2024", "code": "2024-01"},
    "c": {"at": "2024-02-01T00:30:00+01:00", "year": 2025},
    "d": {"at": ["2023-12-31", "2024-12-31"], "year": 2024.5},
    "e": {"at": "2025-01-01T00:00Z", "code": "2024-13"},
}
CASES_OF_PERIODS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"at": {"gte": "2024"}}, "abcde"),
    ({"at": {"gt": "2024"}}, "e"),
    ({"at": {"lt": "2024"}}, "d"),
    ({"at": {"lte": "2024"}}, "abcd"),
    ({"at": {"lte": "2024-01"}}, "abcd"),
    ({"at": {"gt": "2024-01", "lt": "2025-01"}}, "d"),
    ({"at": {"gte": "2024-02"}}, "de"),
    ({"at": "2024"}, "abcd"),
    ({"at": "2024-01"}, "abc"),
    ({"at": ["2023-12", "2025"]}, "de"),
    ({"at": {"not": "2024-01"}}, "de"),
    ({"at": {"contains": "2024-01"}}, "ab"),
    # The number 2024 is no year.  In a condition, the text "2024" is a year and also a numeral.
    ({"at": {"gte": 2024}}, ""),
    ({"at": 2024}, ""),
    ({"year": {"gte": 2024}}, "acd"),
    ({"year": {"gt": "2023"}}, "b"),
    ({"year": {"lte": [2024, "2024"]}}, "ab"),
    ({"year": "2024"}, "b"),
    ({"code": "2024"}, "a"),
    ({"code": "2024-01"}, "b"),
    ({"code": {"lte": "2024"}}, "a"),
    # There is no such month.
    ({"code": "2024-13"}, "e"),
)
"""The same for PERIODS: a year or a month is all its days."""

CLAIMING: dict[str, dict[str, Any]] = {
    "a": {"source": "another", "document_id": "b"},
    "b": {"name": "caf\u00e9", "cle\u0301": 1, "parts": [{"kind": "roof"}, {"kind": "door", "no": [2, 3]}]},
    "c": {"name": "cafe\u0301", "cl\u00e9": "1", "parts": {"kind": "roof"}},
    "d": {"metadata": {"source": "docs"}},
}
CASES_OF_CLAIMS: tuple[tuple[dict[str, Any], str], ...] = (
    # What a document is, no metadata can change.
    ({"source": "docs"}, "abcd"),
    ({"source": "another"}, ""),
    ({"source": {"not": "docs"}}, ""),
    ({"document_id": "b"}, "b"),
    ({"document_id": ["a", "c"]}, "ac"),
    ({"metadata.source": "another"}, "a"),
    ({"metadata.document_id": "b"}, "a"),
    # Both ways to write a letter with its accent are one.
    ({"name": "caf\u00e9"}, "bc"),
    ({"name": {"contains": "FE\u0301"}}, "bc"),
    ({"cl\u00e9": {"exists": True}}, "bc"),
    ({"cl\u00e9": {"gte": 1}, "cle\u0301": {"lt": 2}}, "b"),
    ({"cl\u00e9": {"gte": [1, "1"]}}, "bc"),
    ({"parts.kind": "roof"}, "bc"),
    ({"parts.kind": {"all": ["roof", "door"]}}, "b"),
    ({"parts.no": {"gt": 2}}, "b"),
    ({"parts.no": {"exists": False}}, "acd"),
)
"""The same for CLAIMING: names that are a document's own, forms of a letter, and lists of objects."""

CASES_OF_ANY_SIZE: tuple[tuple[dict[str, Any], str], ...] = (
    ({"text": {"contains": "SECOND"}}, "a"),
    ({"text": {"contains": "line\nsec"}}, "a"),
    ({"text": {"contains": "\n"}}, "abc"),
    ({"text": {"not": {"contains": "second"}}}, "bcd"),
    ({"text": {"contains": "needle"}}, "bd"),
    ({"text": {"not": {"contains": ["needle", "first"]}}}, "c"),
    ({"text": {"contains": "x\r\nneedley"}}, "b"),
    ({"text": ["\n", *(f"text {n}" for n in range(70_000))]}, "c"),
    ({"text": {"not": [*(f"text {n}" for n in range(70_000)), "pin"]}}, "abc"),
    ({"count": 2**53 + 1}, "b"),
    ({"count": {"gt": 2**53}}, "bc"),
    ({"count": {"gte": 2**53 + 1}}, "bc"),
    ({"count": {"lt": 2**53 + 1}}, "ad"),
    ({"count": {"lte": 2.0**53}}, "ad"),
    ({"count": {"gt": 1_714_521_600_000_000_000, "lt": 1_714_521_600_000_000_002}}, "c"),
    ({"count": {"gt": 1_714_521_600_000_000_001}}, ""),
    ({"count": {"gte": -(2**63), "lt": 1 - 2**63}}, "d"),
)
"""The same for OF_ANY_SIZE."""


class FiltersContract(Searching):
    """Filters and exclusions, which work the same in every branch."""

    @pytest.mark.parametrize(
        ("documents", "cases"),
        [
            pytest.param(FILTERED, CASES, id=""),
            pytest.param(PERIODS, CASES_OF_PERIODS, id="of years and months"),
            pytest.param(CLAIMING, CASES_OF_CLAIMS, id="of what metadata claim"),
            pytest.param(OF_ANY_SIZE, CASES_OF_ANY_SIZE, id="of any size", marks=pytest.mark.slow),
        ],
    )
    def test_filters_are_exact_in_every_branch(
        self,
        store: OneEngine,
        documents: dict[str, dict[str, Any]],
        cases: tuple[tuple[dict[str, Any], str], ...],
    ) -> None:
        store.upsert("ns", [document(name, "pear", metadata=fields) for name, fields in documents.items()])
        for filters, expected in cases:
            passages = [f"{name}#0" for name in expected]
            assert self.finds(store, passages, "pear", filters=filters), str(filters)[:200]

    def test_contains_finds_a_part_of_any_length_or_names_the_limit(self, store: OneEngine) -> None:
        text = "ab*" * 20_000
        store.upsert("ns", [document("a", "pear", metadata={"t": text}), document("b", "pear")])
        searched_lengths = []
        for length in (100, 200, 201, 1_024, 1_025, 50_000):
            part = text[:length]
            for filters, expected in (
                ({"t": {"contains": part}}, ["a#0"]),
                ({"t": {"contains": ["c", part]}}, ["a#0"]),
                ({"t": {"not": {"contains": [part]}}}, ["b#0"]),
            ):
                for ranking in self.rankings(store, "pear", filters=filters):
                    if ranking.warnings:
                        assert ranking.hits == ()
                        assert ranking.warnings[0].startswith("filter 't': contains takes up to ")
                    else:
                        assert [hit.passage_id for hit in ranking.hits] == expected, length
                        searched_lengths.append(length)
        assert {100, 200} <= set(searched_lengths)

    def test_an_unknown_field_matches_nothing_and_is_named(self, store: OneEngine) -> None:
        store.upsert("ns", [document("a", "pear", metadata={"year": 1})])
        for filters in ({"year": 1, "yaer": 2020}, {"yaer": {"gte": 1}}, {"yaer": {"exists": True}}):
            for ranking in self.rankings(store, "pear", filters=filters):
                assert ranking.hits == ()
                assert ["yaer" in warning for warning in ranking.warnings] == [True]
        for known in self.rankings(store, "pear", filters={"year": 2}):
            assert known.warnings == ()

    def test_a_filter_changes_no_score(self, store: OneEngine) -> None:
        documents = [
            document(f"d{i}", "pear " * (i + 1), metadata={"n": i % 3}, vectors=(unit(i, 1, 0, 0),))
            for i in range(30)
        ]
        store.upsert("ns", documents)
        free = self.rankings(store, "pear", depth=30)
        filtered = self.rankings(store, "pear", depth=30, filters={"n": 1})
        for whole, part in zip(free, filtered, strict=True):
            assert part.hits == tuple(hit for hit in whole.hits if int(hit.document_id[1:]) % 3 == 1)
            assert len(part.hits) == 10

    def test_a_filter_sees_later_writes(self, store: OneEngine) -> None:
        store.upsert("ns", [document("a", "pear", metadata={"n": 1})])
        assert self.finds(store, ["a#0"], "pear", filters={"n": 1})
        changed = document("a", "pear", metadata={"n": 2})
        store.upsert("ns", [changed, document("b", "pear", metadata={"n": 1})])
        assert self.finds(store, ["b#0"], "pear", filters={"n": 1})
        assert self.finds(store, ["a#0"], "pear", filters={"n": 2})

    def test_excluded_documents_make_room_for_others(self, store: OneEngine) -> None:
        store.upsert("ns", [document(f"d{i}", "pear") for i in range(8)])
        for ranking in self.rankings(store, "pear", exclude_ids=("d0", "d2", "unknown"), depth=2):
            assert [hit.passage_id for hit in ranking.hits][:2] == ["d1#0", "d3#0"]

    @pytest.mark.parametrize("name", ["\0", "'); DROP TABLE chorale_engine; --", "%s {words}", "\\", "*"])
    def test_an_odd_text_of_a_caller_is_a_value_that_no_document_has(
        self, store: OneEngine, name: str
    ) -> None:
        store.upsert("ns", [document("a", "pear", metadata={"kind": "fruit"})])
        for filters in ({"kind": {"not": [name]}}, {"kind": {"not": {"contains": name}}}):
            assert self.finds(store, ["a#0"], f"pear {name}", filters=filters, exclude_ids=[name])


NUMBERS: list[Any] = [0, 1, -1.5, 2**53, 2**53 + 1, -(2**53) - 1, 2**64, -(2**64), 1e308, -1e308]
DATES: list[Any] = ["2024-05-01", "2024-05-01T00:00:00Z", "2024-05-01T23:30:00+02:00", "2024-05-02"]
DATES += ["2023-12-31T12:00", "2024-05-01T23:59:59.999999", "2024-04-30T23:59:59.999999Z"]
BOUNDS = ["2024", "2024-05", "2023-12"]
SCALARS = [
    True,
    False,
    *NUMBERS,
    "",
    "a",
    "A*b?",
    "x\\y",
    "ß",
    "STRASSE",
    "1",
    " x",
    "X y ",
    *DATES,
    *BOUNDS[1:],
]
VALUES = [*SCALARS, 2**64 - 1, 10**400, -(10**400), "2024-13-01", "x\ny", "y" * 300, [], [1, "a", None]]
VALUES += [["2024-05-01", "2024-05-03T01:00:00Z"], {"b": 1}, {"b": ["a", {"c": "2024-05-02"}]}, None]
FIELDS = ["a", "b", "a.b", "a.b.c", "weird \x1f*?\\ field"]
PARTS = ["a", "\n", "*", "?", "\\", "ss", "2024-05", "", 1, ["B?", "ſ"]]


def drawn_condition(drawn: random.Random, depth: int = 0) -> Any:
    match drawn.choice(["value", "values", "range", "exists", "contains", *["not", "all"] * (depth < 3)]):
        case "values":
            return drawn.sample(SCALARS, 3)
        case "range":
            operators = drawn.sample(["gt", "gte", "lt", "lte"], drawn.randint(1, 2))
            return {operator: drawn.choice([*NUMBERS, *DATES, *BOUNDS]) for operator in operators}
        case "exists":
            return {"exists": drawn.random() < 0.5}
        case "contains":
            return {"contains": drawn.choice(PARTS)}
        case "all":
            return {"all": [drawn_condition(drawn, depth + 1) for _ in range(2)]}
        case "not":
            return {"not": drawn_condition(drawn, depth + 1)}
    return drawn.choice(SCALARS)


class DrawnFiltersContract(Searching):
    """For stores that translate filters into the language of a server."""

    def test_any_filter_matches_what_it_matches_in_the_embedded_store(self, store: OneEngine) -> None:
        drawn = random.Random(20_240_501)
        known = {
            f"d{n:03}": {field: drawn.choice(VALUES) for field in FIELDS if drawn.random() < 0.7}
            for n in range(150)
        }
        store.upsert("ns", [document(name, "pear", metadata=fields) for name, fields in known.items()])
        some = 0
        for _ in range(100):
            filters = {drawn.choice(FIELDS): drawn_condition(drawn) for _ in range(drawn.randint(1, 2))}
            compiled = compile_filters(filters)
            expected = [f"{name}#0" for name, fields in known.items() if compiled.matches(fields)]
            assert self.passage_ids(store, "pear", depth=1_000, filters=filters) == expected, filters
            some += 0 < len(expected) < len(known)
        assert some > 40  # most conditions hold for some documents and not for others
