"""Filters in the query languages of other systems: what is sent, and that it never excludes what our filter lets through."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from chorale_client import Request

from models.declarations.sources import FilterDialect
from search.engines.http.filter_dialects import DIALECTS, Translated
from search.filter_meanings import meant_filters
from search.filters import compile_filters, date_span, is_number
from tests.contracts.store_filters import FIELDS, SCALARS, drawn_condition
from tests.support.servers.pinecone_server import RANGES, meets

DAY = {"gte": "2024-05-01", "lte": "2024-05-01T23:59:59.999999+00:00"}
FORM = {"format": "strict_date_optional_time"}
CASES: dict[str, tuple[Any, Any, Any, Any]] = {
    "values": (
        ["tea", "rice"],
        {"f": {"$in": ["tea", "rice"]}},
        {"terms": {"f": ["tea", "rice"]}},
        {"key": "f", "match": {"any": ["tea", "rice"]}},
    ),
    "a number, which may be stored as a text": (
        2024,
        {"$or": [{"f": {"$in": ["2024"]}}, {"f": {"$in": [2024]}}]},
        {"terms": {"f": [2024]}},
        {
            "should": [
                {"key": "f", "match": {"any": ["2024"]}},
                {"key": "f", "range": {"gte": 2024, "lte": 2024}},
            ]
        },
    ),
    "true": (
        True,
        {"$or": [{"f": {"$in": ["true", "True", "TRUE"]}}, {"f": {"$eq": True}}]},
        {"terms": {"f": [True]}},
        {
            "should": [
                {"key": "f", "match": {"any": ["true", "True", "TRUE"]}},
                {"key": "f", "match": {"value": True}},
            ]
        },
    ),
    "a bound": (
        {"gte": 5},
        {"f": {"$gte": 5}},
        {"range": {"f": {"gte": 5}}},
        {"key": "f", "range": {"gte": 5}},
    ),
    "a number that Qdrant rounds": (
        {"gt": 2**53},
        {"f": {"$gt": 2**53}},
        {"range": {"f": {"gt": 2**53}}},
        None,
    ),
    "a whole day": (
        "2024-05-01",
        None,
        {
            "bool": {
                "should": [
                    {"match": {"f": {"query": "2024-05-01", "operator": "and", "lenient": True}}},
                    {"range": {"f": {**DAY, **FORM}}},
                ],
                "minimum_should_match": 1,
            }
        },
        {
            "should": [
                {"key": "f", "match": {"any": ["2024-05-01"]}},
                {"key": "f", "range": DAY},
            ]
        },
    ),
    "after a day": (
        {"gt": "2024-05-01"},
        None,
        {"range": {"f": {"gt": DAY["lte"], **FORM}}},
        {"key": "f", "range": {"gt": DAY["lte"]}},
    ),
    "a field that is there": (
        {"exists": True},
        {"f": {"$exists": True}},
        {"exists": {"field": "f"}},
        {"must_not": [{"is_empty": {"key": "f"}}]},
    ),
    "a field that is not there": (
        {"exists": False},
        None,
        {"bool": {"must_not": [{"exists": {"field": "f"}}]}},
        {"must_not": [{"must_not": [{"is_empty": {"key": "f"}}]}]},
    ),
    "other values": (
        {"not": ["tea"]},
        None,
        {"bool": {"must_not": [{"terms": {"f": ["tea"]}}]}},
        {"must_not": [{"key": "f", "match": {"any": ["tea"]}}]},
    ),
    "a part of a text": ({"contains": "te"}, None, None, None),
    "no condition but its own negation": ({"not": {"gt": 5}}, None, None, None),
}


@pytest.mark.parametrize(("condition", "pinecone", "elasticsearch", "qdrant"), CASES.values(), ids=CASES)
def test_a_condition_is_sent_in_the_form_of_the_dialect(
    condition: Any, pinecone: Any, elasticsearch: Any, qdrant: Any
) -> None:
    filters = meant_filters(Request(questions=("?",), filters={"ours": condition}))
    sent = {name: DIALECTS[name](filters, {"ours": "f"}) for name in DIALECTS}
    unsent = {name for name, (_, fields) in sent.items() if fields == {"ours"}}
    expected = {"pinecone": pinecone, "elasticsearch": elasticsearch, "qdrant": qdrant}
    assert unsent == {name for name, clause in expected.items() if clause is None}
    assert sent["pinecone"].sent == (pinecone or {})
    assert sent["elasticsearch"].sent == {"bool": {"filter": [elasticsearch] if elasticsearch else []}}
    assert sent["qdrant"].sent == {"must": [qdrant] if qdrant else []}


def test_conditions_are_joined_and_the_id_and_source_of_a_document_stay_here() -> None:
    filters = {"a": {"gte": 1, "lt": 3}, "b": {"all": [["x"], {"contains": "y"}]}, "source": "wiki"}
    sent, unsent = DIALECTS["pinecone"](filters, {})
    assert sent == {"$and": [{"a": {"$gte": 1}}, {"a": {"$lt": 3}}, {"b": {"$in": ["x"]}}]}
    assert unsent == {"b", "source"}
    assert DIALECTS["pinecone"]({}, {}) == Translated({}, frozenset())


def test_a_condition_of_several_meanings_is_written_as_the_caller_wrote_it_in_our_own_form() -> None:
    filters = {"a": {"all": [{"gte": [5, "5"]}]}}
    expected = Translated({"b": {"all": [{"gte": 5}]}}, frozenset())
    assert DIALECTS["chorale"](filters, {"a": "b"}) == expected


def test_the_table_has_every_dialect_that_can_be_declared() -> None:
    assert tuple(DIALECTS) == get_args(FilterDialect)


def listed(value: Any) -> list[Any]:
    return [one for one in (value if isinstance(value, list) else [value]) if one is not None]


def as_qdrant(clause: dict[str, Any], fields: dict[str, Any]) -> bool:
    if "key" not in clause:
        return (
            all(as_qdrant(one, fields) for one in clause.get("must", ()))
            and not any(as_qdrant(one, fields) for one in clause.get("must_not", ()))
            and ("should" not in clause or any(as_qdrant(one, fields) for one in clause["should"]))
            and ("is_empty" not in clause or not listed(fields.get(clause["is_empty"]["key"])))
        )
    values = listed(fields.get(clause["key"]))
    if "match" in clause:
        wanted = clause["match"].get("any", [clause["match"].get("value")])
        return any(type(one) is type(each) and one == each for one in values for each in wanted)
    return any(all(compares(name, one, bound) for name, bound in clause["range"].items()) for one in values)


def compares(name: str, value: Any, bound: Any) -> bool:
    """Qdrant compares numbers with numbers, as floats, and moments with moments; a bare date begins its day."""
    if is_number(value) and is_number(bound):
        return bool(RANGES[name](float(value), float(bound)))
    if date_span(value) is None or date_span(bound) is None:
        return False
    moments = [datetime.fromisoformat(one) for one in (value, bound)]
    whole = [one if one.tzinfo else one.replace(tzinfo=UTC) for one in moments]
    return bool(RANGES[name](*whole))


TEA: dict[str, Any] = {"key": "f", "match": {"any": ["tea"]}}
FIVE: dict[str, Any] = {"key": "f", "range": {"gte": 5, "lte": 5}}
HAS: dict[str, Any] = {"must_not": [{"is_empty": {"key": "f"}}]}
ANSWERED: list[tuple[dict[str, Any], list[Any], list[Any]]] = [
    (TEA, ["tea", ["rice", "tea"]], ["Tea", 5, None, []]),
    (FIVE, [5, 5.0], ["5", True, [4, 6]]),
    ({"key": "f", "range": {"gt": 2**53}}, [2**53 + 2], [2**53 + 1]),
    (
        {"key": "f", "range": DAY},
        ["2024-05-01", "2024-05-02T01:00:00+02:00", "2024-05-01 10:30", DAY["lte"]],
        ["2024-05-02", 20240501, "tea"],
    ),
    ({"key": "f", "range": {"gt": DAY["lte"]}}, ["2024-05-02"], ["2024-05-01"]),
    (HAS, ["tea", "", 0], [None, []]),
    ({"must_not": [HAS]}, [None, []], ["tea", 0]),
    ({"must_not": [TEA]}, [None, [], "rice"], [["tea", "rice"]]),
    ({"should": [TEA, FIVE]}, ["tea", 5], ["rice", 6]),
    ({"must": [HAS, {"must_not": [TEA]}]}, ["rice"], ["tea", None]),
]


@pytest.mark.parametrize(("clause", "found", "not_found"), ANSWERED)
def test_the_imitation_of_qdrant_finds_what_its_engine_found(
    clause: dict[str, Any], found: list[Any], not_found: list[Any]
) -> None:
    """The answers were recorded with Qdrant's own engine in process (qdrant-edge-py 0.9.0)."""
    assert [as_qdrant(clause, {"f": value}) for value in found] == [True] * len(found)
    assert [as_qdrant(clause, {"f": value}) for value in not_found] == [False] * len(not_found)


@pytest.mark.parametrize(("dialect", "holds"), [("pinecone", meets), ("qdrant", as_qdrant)])
def test_a_system_never_excludes_a_document_that_the_filter_lets_through(
    dialect: FilterDialect, holds: Callable[[dict[str, Any], dict[str, Any]], bool]
) -> None:
    drawn, excluded, sent_whole = random.Random(20_261_129), 0, 0
    documents = [
        {field: drawn.choice([*SCALARS, [], SCALARS[:3]]) for field in FIELDS if drawn.random() < 0.7}
        for _ in range(60)
    ]
    for _ in range(300):
        filters = {drawn.choice(FIELDS[:2]): drawn_condition(drawn) for _ in range(drawn.randint(1, 2))}
        compiled, (clause, unsent) = compile_filters(filters), DIALECTS[dialect](filters, {})
        sent_whole += not unsent
        for fields in documents:
            is_found = holds(clause, fields)
            assert is_found or not compiled.matches(fields), (filters, clause, fields)
            excluded += not is_found
    assert excluded > 1_000, "most conditions are sent"
    assert sent_whole > 50
