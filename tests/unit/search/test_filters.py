"""Single filter conditions; the store contract tests filters in searches."""

from __future__ import annotations

from typing import Any

import pytest

from search.filters import compile_filters, unknown_field_warnings


def matches(filters: dict[str, Any], **fields: Any) -> bool:
    compiled = compile_filters(filters)
    assert compiled.warnings == ()
    return compiled.matches(fields)


@pytest.mark.parametrize(
    ("condition", "value", "expected"),
    [
        (1, 1.0, True),
        (1, True, False),
        (True, 1, False),
        ("1", 1, False),
        ("A", "a", False),
        ([1, "a"], ["b", "a"], True),
        ([], "a", False),
        ({"gt": 1}, 1, False),
        ({"gte": 1, "lte": 1}, 1, True),
        ({"lt": 2}, "1", False),
        ({"gt": 0}, True, False),
        ({"gt": 5}, [1, 9], True),
        ({"exists": True}, 0, True),
        ({"exists": True}, [None], False),
        ({"exists": False}, None, True),
        ({"not": "a"}, ["a", "b"], False),
        ({"not": ["a", "b"]}, "c", True),
        ({"not": "a"}, None, True),
        ({"not": {"gte": 3}}, 2, True),
        ({"contains": "ÄPF"}, "Der Äpfel", True),
        ({"contains": ["kiwi", "pear"]}, "a pear", True),
        ({"contains": 3}, [1, 3], True),
        ({"contains": "3"}, 3, False),
        ({"all": ["a", ["b", "c"]]}, ["a", "b"], True),
        ({"all": ["a", ["b", "c"]]}, ["a", "d"], False),
        ({"all": [{"gt": 5}, {"gt": 7}, {"not": 9}]}, [6, 8], True),
        ({"not": {"all": ["a", "b"]}}, "a", True),
        ({"gt": "2024-05-01"}, "2024-05-01T23:59:59.999999", False),
        ({"gt": "2024-05-01"}, "2024-05-02", True),
        ({"lt": "2024-05-01"}, "2024-05-01T00:00:00+00:01", True),
        ({"lte": "2024-05-01T12:00"}, "2024-05-01", False),
        ({"gte": "2024-05-01T12:00Z"}, "2024-05-01T14:00+02:00", True),
        ({"gte": "2024-05-01"}, "no date", False),
        ({"gte": "2024-05-01"}, 2024, False),
        ("2024-05-01", "2024-05-01T10:00:00+02:00", True),
        ("2024-02", "2024-02-29T23:59:59.999999", True),
        ("2024-02", "2024-03-01", False),
        ({"lte": "2024-02"}, "2024-02-29", True),
        ({"gt": "9999"}, "9999-12-31T23:59:59.999999", False),
        ({"gte": "2024"}, 2024, False),
        (2024, "2024-02-29", False),
        ("2024-05-01T10:00:00", "2024-05-01", False),
        ("2024-05-01T10:00:00Z", "2024-05-01T12:00:00+02:00", True),
    ],
)
def test_a_condition_holds_or_not(condition: Any, value: Any, expected: bool) -> None:
    assert matches({"field": condition}, field=value) is expected


def test_a_dotted_name_reaches_into_objects_unless_a_field_has_that_name() -> None:
    assert matches({"a.b": 1}, a={"b": 1})
    assert not matches({"a.b": 1}, **{"a": {"b": 1}, "a.b": 2})
    assert not matches({"a.b.c": 1}, a={"b": 1})


@pytest.mark.parametrize(
    "condition",
    [
        {"gt": "abc"},
        {"lte": None},
        {"lte": "2024-13"},
        {"lte": "0024"},
        {"like": "x"},
        {"exists": "maybe"},
        {"not": {"gt": []}},
        {"lt": "9999-12-31T23:59:59-23:59"},  # outside the calendar when converted to UTC
    ],
)
def test_an_invalid_condition_is_named_and_matches_nothing(condition: Any) -> None:
    compiled = compile_filters({"field": condition})
    assert ["'field'" in warning for warning in compiled.warnings] == [True]
    assert not any(compiled.matches({"field": value}) for value in (None, 1, "x", "2024-05-01"))


def test_equal_filters_have_one_key() -> None:
    assert compile_filters({"a": 1, "b": [2]}).key == compile_filters({"b": [2], "a": 1}).key
    assert compile_filters({"a": 1}).key != compile_filters({"a": "1"}).key


def test_the_warning_of_a_filter_on_a_title_says_that_a_title_is_no_metadata() -> None:
    title, colour = unknown_field_warnings(["title", "colour"], [False, False])
    assert title == (
        "filter 'title': no document has this field, so nothing matches; a document's own title and text are no metadata"
    )
    assert colour == "filter 'colour': no document has this field, so nothing matches"
