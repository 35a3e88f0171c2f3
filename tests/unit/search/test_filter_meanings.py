"""What a filter's value means, and what an answer says of a value whose type differs from the documents'."""

from __future__ import annotations

from typing import Any

import pytest
from chorale_client import make_request

from records.keys.grant import Grant
from search.filter_meanings import expanded_filters, meanings, requested_filters, type_warnings
from search.filters import compile_filters, filter_fields

BY_MEANING: dict[str, dict[str, Any]] = {
    "a": {"year": 2026, "open": True, "tags": [7, "x"], "day": "2024-05-01"},
    "b": {"year": "2026", "open": "true", "tags": "7", "day": "2024-05-01T10:00:00Z"},
    "c": {"year": 2026.5, "open": False, "tags": ["y"], "day": 20240501},
    "d": {"year": "2027", "open": "FALSE", "tags": "x17"},
}

CASES_BY_MEANING: tuple[tuple[dict[str, Any], str], ...] = (
    ({"year": "2026"}, "ab"),
    ({"year": 2026}, "ab"),
    ({"year": 2026.0}, "ab"),
    ({"year": ["2026.5", 2027]}, "cd"),
    ({"year": {"not": "2026"}}, "cd"),
    ({"year": {"gte": "2026", "lt": "2026.5"}}, "ab"),
    ({"year": {"gt": 2026}}, "cd"),
    ({"year": {"lte": 2026.0}}, "ab"),
    ({"year": {"not": {"gte": 2027}}}, "abc"),
    ({"year": {"all": [{"gt": "2026"}, {"gt": -1e-9, "lt": 2027}]}}, "c"),
    ({"tags": {"gte": 7}}, "ab"),
    ({"day": {"gte": "2024-05-01"}}, "ab"),
    ({"day": {"gte": 2024}}, "abc"),
    ({"day": {"lte": 2024}}, "ab"),
    ({"day": 2024}, "ab"),
    ({"year": {"all": ["2026", {"exists": True}]}}, "ab"),
    ({"open": True}, "ab"),
    ({"open": "True"}, "a"),
    ({"open": False}, "cd"),
    ({"tags": "7"}, "ab"),
    ({"tags": {"contains": 7}}, "abd"),
    ({"tags": {"contains": "7"}}, "abd"),
    ({"day": "2024-05-01"}, "ab"),
    ({"day": "20240501"}, "c"),
    ({"year": []}, "abcd"),
    ({"year": [], "tags": {"not": []}, "open": {"contains": []}}, "abcd"),
    ({"year": [], "tags": ["y", "7"]}, "abc"),
    ({"nowhere": []}, "abcd"),
)
"""What a caller asks, and the documents of BY_MEANING that it finds."""
FORCED: tuple[tuple[dict[str, Any], dict[str, Any], str], ...] = (
    ({"year": "2026"}, {}, "b"),
    ({"year": "2026"}, {"open": "true"}, "b"),
    ({"year": "2026"}, {"year": 2026}, "b"),
    ({"year": [2026, "2027"]}, {"year": "2026"}, "a"),
    ({"year": []}, {"year": []}, ""),
    ({"year": "2026"}, {"year": [], "open": []}, "b"),
    ({"open": {"not": []}}, {"year": "2026"}, "ab"),
    ({"year": {"gte": 2026}}, {}, "ac"),
    ({"year": {"gte": 2026}}, {"year": {"gte": 2026}}, "ac"),
    ({"source": "docs"}, {"source": "another"}, ""),
)
"""What a key forces, what its caller asks, and the documents of BY_MEANING that both find."""


def matching_names(filters: dict[str, Any]) -> str:
    """Every store finds what `search.filters` lets through (`tests/contracts/store_filters.py`)."""
    compiled = compile_filters(filters)
    assert compiled.warnings == ()
    documents = {name: filter_fields(name, "docs", fields) for name, fields in BY_MEANING.items()}
    return "".join(name for name, fields in documents.items() if compiled.matches(fields))


@pytest.mark.parametrize(("requested", "expected"), CASES_BY_MEANING)
def test_a_callers_value_is_compared_by_its_meaning_and_an_empty_list_is_no_condition(
    requested: dict[str, Any], expected: str
) -> None:
    assert matching_names(expanded_filters(make_request("pear", filters=requested))) == expected


@pytest.mark.parametrize(("forced", "requested", "expected"), FORCED)
def test_what_a_key_forces_is_compared_exactly(
    forced: dict[str, Any], requested: dict[str, Any], expected: str
) -> None:
    grant = Grant("k", "acme", None, frozenset({"search:run"}), filters=forced)
    request = grant.applied(make_request("pear", request_id="t.acme.1", filters=requested))
    assert matching_names(expanded_filters(request)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026", ["2026", 2026]),
        ("-1.5", ["-1.5", -1.5]),
        (2026, [2026, "2026"]),
        (2026.0, [2026.0, "2026.0", "2026"]),
        (True, [True, "true", "True", "TRUE"]),
        ("TRUE", ["TRUE", True]),
        ("false", ["false", False]),
        # An identifier, a postcode, another script's digits, a date and a word are what they are.
        *((text, [text]) for text in ("007", "1e5", "٢", "2024-05-01", "law", "", "1" * 400)),
    ],
)
def test_a_value_has_the_meanings_of_other_types(value: Any, expected: list[Any]) -> None:
    values = meanings(value)
    assert [(type(one), one) for one in values] == [(type(one), one) for one in expected]


def test_only_what_a_caller_asks_is_compared_by_meaning_and_what_is_empty_is_left_out() -> None:
    filters = {"year": {"all": [["7"], "8"]}, "domain": {"all": [[]]}, "open": {"all": [{"not": []}, []]}}
    keyed = make_request("x", request_id="t.acme.1", filters=filters)
    assert expanded_filters(keyed) == {
        "year": {"all": [["7"], ["8", 8]]},
        "domain": {"all": [[]]},
        "open": {"all": [{"not": []}]},
    }
    assert requested_filters(keyed) == {"year": "8"}
    keyless = make_request("x", filters=filters)
    assert expanded_filters(keyless) == {"year": {"all": [["7", 7], ["8", 8]]}}
    assert requested_filters(keyless) == {"year": {"all": [["7"], "8"]}}


@pytest.mark.parametrize(
    ("condition", "stored", "said"),
    [
        ("2026", [2026], "'2026', a text, and documents have 2026, a number"),
        (True, ["true"], "True, true or false, and documents have 'true', a text"),
        ({"not": 5}, ["a"], "5, a number, and documents have 'a', a text"),
        ({"gte": "2020"}, [2022], "'2020', a text, and documents have 2022, a number"),
        # One of two documents has the other type.
        (1, [1, "1"], "1, a number, and documents have '1', a text"),
        ("x", [["x", 3], "x"], None),
        ({"exists": True}, [3], None),
        ("x", [], None),
    ],
)
def test_values_of_another_type_are_named_with_both_types(
    condition: Any, stored: list[Any], said: str | None
) -> None:
    documents = [{"f": value} for value in stored]
    warnings = type_warnings({"f": condition}, documents)
    expected = f"filter 'f': the request has {said}: they are compared by their meaning"
    assert warnings == (() if said is None else (expected,))
