"""Weaviate's filters let through what filters mean: conditions on terms, compared with the filters themselves."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from search.filters import compile_filters
from search.weaviate.conditions import AnyTerm, Condition, Every, Like, Not, Some, condition
from search.weaviate.facets import DAYS, MOMENTS, NUMBERS, facets, number_code

DATES = st.one_of(
    st.dates().map(str),
    st.datetimes().map(lambda moment: moment.isoformat()),
    st.sampled_from(
        [
            "2024-05-01",
            "2024-05-02T00:30:00+01:00",
            "2024-05-01T23:30:00Z",
            "2024-05-01T00:00:00",
            "2024-05-01T23:59:59.999999",
            "2024-05-02",
            "2024-04-30T23:59:59.999999Z",
            "2024-13-01",
        ]
    ),
)
NUMBERS_OF_ALL_SIZES = st.one_of(
    st.integers(-5, 5),
    st.integers(-(2**70), 2**70),
    st.sampled_from([2**53, 2**53 + 1, 2.0**53, 10**400, -0.0]),
    st.floats(allow_nan=True),
)
TEXTS = st.one_of(
    st.sampled_from(["", "x", "X ", " x", "faq*", "f?q", "Straße", "y" * 300]), st.text(max_size=4)
)
SCALARS = st.one_of(st.booleans(), NUMBERS_OF_ALL_SIZES, TEXTS, DATES)
VALUES = st.one_of(st.none(), SCALARS, st.lists(st.one_of(st.none(), SCALARS), max_size=3))
FIELDS = st.dictionaries(
    st.sampled_from(["a", "b", "a.b", "c*"]),
    st.one_of(VALUES, st.dictionaries(st.sampled_from("bc"), VALUES)),
)
OPERATORS: st.SearchStrategy[Any] = st.deferred(
    lambda: st.dictionaries(
        st.sampled_from(["gt", "gte", "lt", "lte", "exists", "not", "contains"]),
        st.one_of(SCALARS, st.lists(SCALARS, max_size=2), OPERATORS),
        max_size=2,
    )
)
FILTERS = st.dictionaries(
    st.sampled_from(["a", "b", "a.b", "a.c", "c*"]),
    st.one_of(SCALARS, st.lists(SCALARS, max_size=3), OPERATORS),
    min_size=1,
    max_size=2,
)


def holds(wanted: Condition, terms: set[str]) -> bool:
    """What Weaviate does with a condition."""
    match wanted:
        case AnyTerm(any_of):
            return not terms.isdisjoint(any_of)
        case Like(pattern):
            literal = pattern.replace("[", "[[]")
            return any(fnmatchcase(term, literal) for term in terms)
        case Not(inner):
            return not holds(inner, terms)
        case Every(conditions):
            return all(holds(inner, terms) for inner in conditions)
        case Some(conditions):
            return any(holds(inner, terms) for inner in conditions)


def large_integers(value: object) -> bool:
    """Integers beyond 2^53, whose ranges are those of the nearest float."""
    if isinstance(value, dict):
        return any(map(large_integers, value.values()))
    if isinstance(value, list):
        return any(map(large_integers, value))
    return isinstance(value, int) and abs(value) > 2**53


@settings(max_examples=400, deadline=None)
@given(FIELDS, FILTERS)
@example({"a": "2024-05-01"}, {"a": {"gte": "2024-05-01T00:00:01"}})
@example({"a": "2024-05-01"}, {"a": {"lte": "2024-05-01T12:00:00"}})
@example({"a": -1.5}, {"a": {"gt": -2, "lte": -1.5}})
@example({"a": 2**53 + 1}, {"a": 2**53})
def test_a_condition_holds_for_the_documents_that_the_filter_lets_through(
    fields: dict[str, Any], filters: dict[str, Any]
) -> None:
    compiled = compile_filters(filters)
    ranges = any(name in repr(filters) for name in ("'gt", "'lt"))
    if compiled.warnings or (ranges and large_integers([fields, filters])):
        return
    assert holds(condition(filters), set(facets(fields))) == compiled.matches(fields)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_codes_of_numbers_are_in_the_order_of_the_numbers(one: float, other: float) -> None:
    assert (number_code(one) < number_code(other)) == (one < other)


def test_a_usual_value_takes_few_terms_and_a_range_few_hundred() -> None:
    # e, s, c, t; of 20240501 eight prefixes and the whole; and the one that all objects have.
    assert len(facets({"published_at": "2024-05-01"})) == 1 + 4 + 9
    # 2019 is c09f8c0000000000: e, six prefixes and the whole.
    assert len(facets({"year": 2019})) == 1 + 1 + 7
    assert len(set(NUMBERS.above("year", number_code(0.1)))) <= 15 * 16
    assert len(set(MOMENTS.below("at", "9" * 20))) == 20 * 10
    assert len(set(DAYS.above("at", "0" * 8))) == 8 * 9


def test_no_term_loses_anything_to_trimming() -> None:
    for term in facets({" a ": [" x ", 1, True, "2024-05-01"]}):
        assert term == term.strip(" \t\n\r\v\f\u0085\u00a0")
