"""The values of a statement's parameters: names in a question, and what filters allow."""

from __future__ import annotations

from typing import Any

import pytest
from chorale_client import make_request

from models.errors import NotConfigured
from tasks.branches.graph import entities, filter_values

STATEMENT = "MATCH (a) WHERE $filter_owner IS NULL OR a.owner IN $filter_owner RETURN a.id AS id"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Which cases cite Donoghue v Stevenson?", ["Which", "Donoghue", "Stevenson"]),
        ("Does the Parking Rule of 2024 bind Rome?", ["Does", "Parking Rule", "2024", "Rome"]),
        ("Parking Rule: who made it?", ["Parking Rule", "Rule"]),
        ("Is Regulation 2016/679 above ERR-4711?", ["Is Regulation 2016/679", "Regulation 2016/679", "ERR-4711"]),
        ('who wrote "the old man" and “the sea”?', ["the old man", "the sea"]),
        ("who said 'no way' to O'Neill", ["no way", "O'Neill"]),
        ("was kostet Öl in Ägypten, Österreich?", ["Öl", "Ägypten", "Österreich"]),
        ("nothing here", []),
        ("", []),
    ],
)  # fmt: skip
def test_quoted_and_capitalised_words_are_entities(text: str, names: list[str]) -> None:
    assert entities(make_request(text).questions[0]) == names


def test_the_callers_entities_count_alone() -> None:
    question = {"text": "Who is Ada?", "variants": [{"kind": "entity", "text": "ada lovelace"}]}
    assert entities(make_request(question).questions[0]) == ["ada lovelace"]


@pytest.mark.parametrize(
    ("filters", "values"),
    [
        ({}, None),
        ({"other": "x"}, None),
        ({"owner": "a"}, ["a"]),
        ({"owner": ["a", "7"]}, ["a", "7", 7]),
        ({"owner": []}, None),
        ({"owner": {"contains": "a"}}, None),
    ],
)
def test_a_callers_values_are_bound_by_their_meaning(filters: dict[str, Any], values: Any) -> None:
    assert filter_values(make_request("q", filters=filters), STATEMENT) == {"filter_owner": values}


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        ({"all": ["a"]}, ["a"]),
        ({"all": [["a", "7"], "b"]}, ["a", "7"]),
        ({"all": [{"not": []}, "b"]}, ["b"]),
    ],
)
def test_what_a_key_forces_is_bound_exactly_and_comes_before_what_the_caller_asks(
    condition: Any, values: list[str]
) -> None:
    request = make_request("q", request_id="t.a.1", filters={"owner": condition})
    assert filter_values(request, STATEMENT) == {"filter_owner": values}


@pytest.mark.parametrize(
    ("filters", "statement"),
    [
        ({"owner": {"all": ["a"]}}, "MATCH (a) RETURN a.id AS id"),
        (
            {"owner": {"all": ["a"]}},
            "MATCH (a) WHERE a.x <> '$filter_owner' RETURN a.id AS id // $filter_owner",
        ),
        ({"owner": {"all": [{"gt": 1}]}}, STATEMENT),
        ({"owner": {"all": ["a"]}, "team": {"all": ["b"]}}, STATEMENT),
    ],
)
def test_a_statement_that_cannot_bind_what_a_key_forces_is_refused_without_naming_the_filter(
    filters: dict[str, Any], statement: str
) -> None:
    with pytest.raises(NotConfigured, match="filters are not bound") as refused:
        filter_values(make_request("q", request_id="t.a.1", filters=filters), statement)
    assert "owner" not in str(refused.value)


def test_a_field_inside_an_object_is_bound_by_a_quoted_name() -> None:
    statement = "MATCH (a) WHERE a.team IN $`filter_meta.team` RETURN a.id AS id"
    request = make_request("q", request_id="t.a.1", filters={"meta.team": {"all": ["x"]}})
    assert filter_values(request, statement) == {"filter_meta.team": ["x"]}
