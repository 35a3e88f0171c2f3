"""What a caller gets wrong in a request is one sentence, which names the field and says what it takes."""

from __future__ import annotations

import math
from typing import Any

import pytest
from chorale_client import InvalidRequest, make_request
from chorale_client.request import Request

VALUES = "a text, a finite number, true or false"
OPERATORS = "gt, gte, lt, lte, exists, not, contains, all"


def complaint(questions: Any = "bread", **options: Any) -> str:
    with pytest.raises(InvalidRequest) as raised:
        make_request(questions, **options)
    return str(raised.value)


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        (None, f"takes {VALUES}, a list of these, or {{{OPERATORS}}}, not None"),
        (math.nan, f"takes {VALUES}, a list of these, or {{{OPERATORS}}}, not nan"),
        (["x", -math.inf], f"takes {VALUES}, a list of these, or {{{OPERATORS}}}, not -inf"),
        ([["x"]], f"takes {VALUES}, a list of these, or {{{OPERATORS}}}, not ['x']"),
        ({}, f"no operator (none given); there are: {OPERATORS}"),
        ({"near": "x"}, f"no operator 'near'; there are: {OPERATORS}"),
        (
            {"$in": ["x"]},
            f"no operator '$in'; there are: {OPERATORS}; write a plain list: {{field: [values]}}",
        ),
        (
            {"$gte": 1, "$lt": 2},
            f"no operator '$gte', '$lt'; there are: {OPERATORS}; write {{field: {{gte: bound}}}}; write "
            "{field: {lt: bound}}",
        ),
        ({"exists": "maybe"}, "exists takes true or false, not 'maybe'"),
        ({"exists": 1}, "exists takes true or false, not 1"),
        ({"gt": math.inf}, "gt takes a finite number or an ISO 8601 date, not inf"),
        ({"gt": 1, "lte": None}, "lte takes a finite number or an ISO 8601 date, not None"),
        ({"gte": True}, "gte takes a finite number or an ISO 8601 date, not True"),
        ({"lt": [1]}, "lt takes a finite number or an ISO 8601 date, not [1]"),
        ({"contains": {"gt": 1}}, f"contains takes {VALUES}, or a list of these, not {{'gt': 1}}"),
        ({"not": {"exists": "no"}}, "exists takes true or false, not 'no'"),
        ({"not": None}, f"takes {VALUES}, a list of these, or {{{OPERATORS}}}, not None"),
        ({"all": []}, "all takes a list of conditions, not []"),
        ({"all": {"gt": 1}}, "all takes a list of conditions, not {'gt': 1}"),
        ({"all": ["x", {"near": 1}]}, f"no operator 'near'; there are: {OPERATORS}"),
        ("\ud800", "invalid Unicode in '\\ud800': lone surrogate"),
    ],
    ids=str,
)
def test_the_error_for_a_wrong_filter_is_one_sentence(condition: Any, says: str) -> None:
    assert complaint(filters={"b": 1, "a": condition}) == f"filters: filter 'a': {says}"


@pytest.mark.parametrize(
    ("filters", "ours"),
    [
        (
            {"$and": [{"year": 2020}]},
            "one object with all fields, and {field: {all: [conditions]}} for several",
        ),
        (
            {"$or": [{"a": 1}, {"b": 2}]},
            "{field: [values]} on one field; alternatives on different fields take a",
        ),
        ({"$not": {"a": 1}}, "{field: {not: condition}}"),
    ],
    ids=str,
)
def test_an_operator_of_another_system_in_place_of_a_field_is_answered_with_our_form(
    filters: dict[str, Any], ours: str
) -> None:
    [name] = filters
    said = f"filters: filter '{name}': an operator of another system stands in place of a field; write {ours}"
    assert complaint(filters=filters).startswith(said)
    # A field of such a name that is no operator is a field.
    make_request("bread", filters={"$schema": "x"})


VALID: list[Any] = [
    "x",
    "",
    1,
    1.5,
    True,
    [],
    ["x", 1, False],
    {"gt": 1, "lte": "2024-05-01"},
    {"exists": False},
]
NESTED: list[Any] = [
    {"not": ["a", "b"]},
    {"not": {"gte": 3}},
    {"contains": ["kiwi", 3]},
    {"all": ["x", ["x", 1], {"gt": 1}, {"all": [{"not": "y"}]}]},
]


@pytest.mark.parametrize("condition", [*VALID, *NESTED], ids=str)
def test_every_valid_filter_is_taken_unchanged(condition: Any) -> None:
    assert make_request("bread", filters={"a": condition}).filters == {"a": condition}


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ("a" * 8_193, "questions.0.text: String should have at most 8192 characters"),
        ({"text": 3}, "questions.0.text: Input should be a valid string"),
        ({"text": "a", "variants": 3}, "questions.0.variants: Input should be a valid list"),
        (
            {"text": "a", "variants": [{"kind": "x", "text": "b"}]},
            "questions.0.variants.0.kind: Input should be 'keyword', 'semantic' or 'entity'",
        ),
    ],
)
def test_a_fault_inside_a_question_is_reported_once(question: Any, says: str) -> None:
    assert complaint(question) == says


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"boosts": {"authority": {"law": 0}}}, "boosts.authority.law: Input should be greater than 0"),
        ({"boosts": {"recency": 1}}, "boosts.recency: unknown field"),
        ({"boosts": "on"}, "boosts: takes an object, or 'off'"),
        ({"boosts": 5}, "boosts: takes an object, or 'off'"),
        (
            {"context_tokens": 9, "context_around": "page"},
            "context_around: takes a number from 0 to 20, or 'document'",
        ),
        (
            {"context_tokens": 9, "context_around": 21},
            "context_around: takes a number from 0 to 20, or 'document'",
        ),
    ],
    ids=str,
)
def test_a_fault_in_a_field_of_several_forms_is_reported_once_under_its_own_name(
    options: dict[str, Any], says: str
) -> None:
    assert complaint(**options) == says


@pytest.mark.parametrize("around", [0, 20, "document"])
def test_a_field_of_several_forms_takes_each_of_them(around: Any) -> None:
    boosts: Any = {"authority": {"law": 2}, "max_places": None}
    request = make_request("bread", boosts=boosts, context_tokens=9, context_around=around)
    assert Request.model_validate_json(request.model_dump_json()) == request
    assert (request.context_around, make_request("bread", boosts="off").boosts) == (around, "off")


def test_each_of_several_wrong_fields_is_named() -> None:
    assert complaint(top_k=0, speed=1).split("; ") == [
        "top_k: Input should be greater than or equal to 1",
        "speed: unknown field",
    ]
