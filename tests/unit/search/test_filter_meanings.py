"""What a filter's value means, and what an answer says of a value whose type differs from the documents'."""

from __future__ import annotations

from typing import Any

import pytest
from chorale_client import make_request

from search.filter_meanings import meanings, meant_filters, requested_filters, type_warnings


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
    found = meanings(value)
    assert [(type(one), one) for one in found] == [(type(one), one) for one in expected]


def test_only_what_a_caller_asks_is_compared_by_meaning_and_what_is_empty_is_left_out() -> None:
    filters = {"year": {"all": [["7"], "8"]}, "domain": {"all": [[]]}, "open": {"all": [{"not": []}, []]}}
    of_a_key = make_request("x", request_id="t.acme.1", filters=filters)
    assert meant_filters(of_a_key) == {
        "year": {"all": [["7"], ["8", 8]]},
        "domain": {"all": [[]]},
        "open": {"all": [{"not": []}]},
    }
    assert requested_filters(of_a_key) == {"year": "8"}
    of_nobody = make_request("x", filters=filters)
    assert meant_filters(of_nobody) == {"year": {"all": [["7", 7], ["8", 8]]}}
    assert requested_filters(of_nobody) == {"year": {"all": [["7"], "8"]}}


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
    found = type_warnings({"f": condition}, documents)
    expected = f"filter 'f': the request has {said}: they are compared by their meaning"
    assert found == (() if said is None else (expected,))
