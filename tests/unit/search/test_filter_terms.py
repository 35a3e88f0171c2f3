"""Terms that stand for values in a server's index; the store contracts draw filters and ask the servers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from search.engines.elasticsearch.filter_conditions import CLAUSES, FACETS
from search.engines.elasticsearch.filter_conditions import LONGEST_PART as LONGEST_PATTERN
from search.filter_terms import DAYS, LONGEST_PART, MOMENTS, NUMBERS, facets, number_code
from search.protocol import Search
from search.term_conditions import warnings

EXACT = st.one_of(st.floats(allow_nan=False), st.integers(-(2**64), 2**64))
FIRE = "\U0001f525"


@given(EXACT, st.one_of(EXACT, st.integers()))
@example(1e308, 10**400)
def test_codes_of_numbers_sort_like_the_numbers(one: float, other: float) -> None:
    """At least one of the two numbers is exact.  Integers may have any size."""
    assert (number_code(one) < number_code(other), number_code(one) > number_code(other)) == (
        one < other,
        one > other,
    )


@pytest.mark.parametrize(
    ("filters", "named"),
    [
        ({"a": {"gt": 2**64}}, []),
        ({"a": {"gt": 2.0**70}}, []),
        ({"a": {"gt": 2**70}}, []),
        ({"a": 2**64 + 1}, []),
        ({"a": {"gt": 2**64 + 1}}, ["filter 'a': gt takes integers up to 2^64"]),
        ({"a": {"not": {"lte": -(10**400)}}}, ["filter 'a': lte takes integers up to 2^64"]),
        ({"a": {"contains": "x" * LONGEST_PART}}, []),
        (
            {"a": {"near": 1}},
            ["filter 'a': no operator 'near'; there are: gt, gte, lt, lte, exists, not, contains, all"],
        ),
        (
            {"a": {"not": {"contains": ["y", "x" * 1_025]}}},
            ["filter 'a': contains takes up to 1,024 characters"],
        ),
    ],
)
def test_conditions_that_terms_cannot_express_are_named(filters: dict[str, Any], named: list[str]) -> None:
    assert list(warnings(filters, LONGEST_PART)) == named


def test_every_part_of_a_long_text_lies_within_one_of_its_terms() -> None:
    text = "".join(chr(0x20000 + n) for n in range(30_000))  # no character occurs twice
    windows = [term for term in facets({"a": text}) if term.startswith("ca")]
    for start in range(len(text) - LONGEST_PART + 1):
        part = text[start : start + LONGEST_PART]
        assert any(part in window for window in windows), start


def test_no_term_exceeds_lucenes_limit() -> None:
    for term in facets({FIRE * 9_000: [FIRE * 9_000, {"x": FIRE * 99_000}, 10**4_000]}):
        assert len(term.encode()) <= 32_766


def test_terms_are_few_and_neither_begin_nor_end_with_white_space() -> None:
    for term in facets({" a ": [" x ", 1, True, "2024-05-01"]}):
        assert term == term.strip(" \t\n\r\v\f\u0085\u00a0"), "the server would strip it"
    assert len(facets({"year": float("nan")})) == 2, "a field with NaN exists and equals no value"
    # e, s, c, t; eight prefixes and the whole of 20240501; and the term that all objects have.
    assert len(facets({"published_at": "2024-05-01"})) == 1 + 4 + 9
    # The code of 2019 is c09f8c0000000000: e, six prefixes and the whole.
    assert len(facets({"year": 2019})) == 1 + 1 + 7
    assert len(set(NUMBERS.above("year", number_code(0.1)))) <= 15 * 19
    assert len(set(MOMENTS.below("at", "9" * 20))) == 20 * 10
    assert len(set(DAYS.above("at", "0" * 8))) == 8 * 9


def test_no_pattern_exceeds_elasticsearchs_limit() -> None:
    for character in ("x", ".", FIRE):
        field, part = character * 256, character * LONGEST_PATTERN
        (clause,) = CLAUSES.for_search(Search(1, {field: {"contains": part}})).parts
        # Java counts UTF-16 units.
        assert len(clause["regexp"][FACETS]["value"].encode("utf-16-le")) // 2 <= 1_000


def test_no_clause_exceeds_elasticsearchs_limit_of_values() -> None:
    search = Search(1, {"a": [f"v{n}" for n in range(70_000)]}, tuple(map(str, range(140_000))))
    allowed, excluded = CLAUSES.for_search(search).parts
    parts = [clause["terms"][FACETS] for clause in allowed["bool"]["should"]]
    assert [len(part) for part in parts] == [65_536, 70_000 - 65_536]
    [named] = excluded["bool"]["must_not"]
    names = [clause["terms"]["document_id"] for clause in named["bool"]["should"]]
    assert [len(part) for part in names] == [65_536, 65_536, 8_928]
