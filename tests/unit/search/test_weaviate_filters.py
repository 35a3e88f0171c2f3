"""Conditions on terms match exactly what the filters match."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from search.filters import compile_filters
from search.weaviate.filter_conditions import condition, warnings
from search.weaviate.filter_terms import DAYS, LONGEST_PART, MOMENTS, NUMBERS, facets, number_code

MOMENTS_OF_A_DAY = ["2024-05-01", "2024-05-02T00:30:00+01:00", "2024-05-01T23:30:00Z", "2024-05-01T00:00:00"]
MOMENTS_OF_A_DAY += ["2024-05-01T23:59:59.999999", "2024-05-02", "2024-04-30T23:59:59.999999Z", "2024-13-01"]
DATES = st.one_of(
    st.dates().map(str),
    st.datetimes().map(lambda moment: moment.isoformat()),
    st.sampled_from(MOMENTS_OF_A_DAY),
)
NUMBERS_OF_ALL_SIZES = st.one_of(
    st.integers(-5, 5),
    st.integers(-(2**70), 2**70),
    st.sampled_from([2**53, 2**53 + 1, 2.0**53, 10**400, -0.0]),
    st.floats(allow_nan=True),
)
TEXTS = st.one_of(
    st.sampled_from(["", "x", "X ", " x", "x\ny", "\n", "faq*", "f?q", "Straße", "y" * 300]),
    st.text(max_size=4),
)
SCALARS = st.one_of(st.booleans(), NUMBERS_OF_ALL_SIZES, TEXTS, DATES)
VALUES = st.one_of(st.none(), SCALARS, st.lists(st.one_of(st.none(), SCALARS), max_size=3))
FIELDS = st.dictionaries(
    st.sampled_from(["a", "b", "a.b", "c*"]),
    st.one_of(VALUES, st.dictionaries(st.sampled_from("bc"), VALUES)),
)
OPERATORS: st.SearchStrategy[Any] = st.deferred(
    lambda: st.dictionaries(
        st.sampled_from(["gt", "gte", "lt", "lte", "exists", "not", "contains", "all"]),
        st.one_of(SCALARS, st.lists(st.one_of(SCALARS, OPERATORS), max_size=2), OPERATORS),
        max_size=2,
    )
)
FILTERS = st.dictionaries(
    st.sampled_from(["a", "b", "a.b", "a.c", "c*"]),
    st.one_of(SCALARS, st.lists(SCALARS, max_size=3), OPERATORS),
    min_size=1,
    max_size=2,
)


def holds(wanted: Any, terms: set[str]) -> bool:
    """Evaluates a filter of Weaviate's client as Weaviate does."""
    match wanted.operator.value:
        case "Not":
            (inner,) = wanted.filters
            return not holds(inner, terms)
        case "And":
            return all(holds(inner, terms) for inner in wanted.filters)
        case "Or":
            return any(holds(inner, terms) for inner in wanted.filters)
    assert wanted.target == "facets"
    match wanted.operator.value:
        case "ContainsAny":
            return not terms.isdisjoint(wanted.value)
        case "Like":
            # A dot matches any character except the end of a line.
            expression = re.escape(wanted.value).replace(r"\*", ".*").replace(r"\?", ".")
            return any(re.fullmatch(expression, term) for term in terms)
    raise AssertionError(f"no operator {wanted.operator} is expected")


@settings(max_examples=100, deadline=None)
@given(FIELDS, FILTERS)
@example({"a": "2024-05-01"}, {"a": {"gte": "2024-05-01T00:00:01"}})
@example({"a": "2024-05-01"}, {"a": {"lte": "2024-05-01T12:00:00"}})
@example({"a": -1.5}, {"a": {"gt": -2, "lte": -1.5}})
@example({"a": 2**53 + 1}, {"a": 2**53})
@example({"a": 2**53 + 1}, {"a": {"gt": 2**53}})
@example({"a": -(2**53) - 1}, {"a": {"lt": -(2**53)}})
@example({"a": 2**64 - 1}, {"a": {"lt": 2**64}})
@example({"a": 10**400}, {"a": {"gt": 1e308, "lt": math.inf}})
@example({"a": -(10**400)}, {"a": {"lt": -1e308, "gt": -math.inf}})
@example({"a": "x\ny"}, {"a": {"contains": "Y"}})
def test_a_condition_matches_exactly_what_the_filter_matches(
    fields: dict[str, Any], filters: dict[str, Any]
) -> None:
    if not warnings(filters):
        assert holds(condition(filters), set(facets(fields))) == compile_filters(filters).matches(fields)


EXACT = st.one_of(st.floats(allow_nan=False), st.integers(-(2**64), 2**64))


@given(EXACT, st.one_of(EXACT, st.integers()))
@example(1e308, 10**400)
def test_codes_of_numbers_sort_like_the_numbers(one: float, other: float) -> None:
    """Of the two, at least one is exact; integers may have any size."""
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
            {"a": {"not": {"contains": ["y", "x" * 1_025]}}},
            ["filter 'a': contains takes up to 1,024 characters"],
        ),
    ],
)
def test_bounds_that_terms_cannot_express_are_named(filters: dict[str, Any], named: list[str]) -> None:
    assert list(warnings(filters)) == named


def test_every_part_of_a_long_text_lies_within_one_of_its_terms() -> None:
    text = "".join(chr(0x20000 + n) for n in range(80_000))  # no character occurs twice
    windows = [one for one in facets({"a": text}) if one.startswith("ca")]
    for start in range(len(text) - LONGEST_PART + 1):
        part = text[start : start + LONGEST_PART]
        assert any(part in window for window in windows), start


def test_terms_are_few_and_neither_begin_nor_end_with_white_space() -> None:
    for term in facets({" a ": [" x ", 1, True, "2024-05-01"]}):
        assert term == term.strip(" \t\n\r\v\f\u0085\u00a0"), "the server would strip it"
    # e, s, c, t; eight prefixes and the whole of 20240501; and the term that all objects have.
    assert len(facets({"published_at": "2024-05-01"})) == 1 + 4 + 9
    # The code of 2019 is c09f8c0000000000: e, six prefixes and the whole.
    assert len(facets({"year": 2019})) == 1 + 1 + 7
    assert len(set(NUMBERS.above("year", number_code(0.1)))) <= 15 * 19
    assert len(set(MOMENTS.below("at", "9" * 20))) == 20 * 10
    assert len(set(DAYS.above("at", "0" * 8))) == 8 * 9
