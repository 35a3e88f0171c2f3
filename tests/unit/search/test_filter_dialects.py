"""Filters in the query languages of other systems: what is sent, and that it never excludes what our filter lets through."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from chorale_client import Request

from models.declarations.sources import FilterDialect, QdrantIndex
from search.engines.http.filter_dialects import DIALECTS, Translated
from search.filter_meanings import expanded_filters
from search.filters import compile_filters
from tests.contracts.store_filters import FIELDS, SCALARS, drawn_condition
from tests.support.servers.pinecone_server import meets
from tests.support.servers.qdrant_server import Collection

FindIds = Callable[[dict[str, Any]], set[Any]]
"""The places of the documents that meet a clause."""

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
        {"should": [{"is_empty": {"key": "f"}}, {"is_null": {"key": "f"}}]},
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


MONTH = {"gte": "2024-02-01", "lte": "2024-02-29T23:59:59.999999+00:00"}
CASES |= {
    "a whole month": (
        "2024-02",
        None,
        {
            "bool": {
                "should": [
                    {"match": {"f": {"query": "2024-02", "operator": "and", "lenient": True}}},
                    {"range": {"f": {**MONTH, **FORM}}},
                ],
                "minimum_should_match": 1,
            }
        },
        {"should": [{"key": "f", "match": {"any": ["2024-02"]}}, {"key": "f", "range": MONTH}]},
    ),
    "up to a month": (
        {"lte": "2024-02"},
        None,
        {"range": {"f": {"lte": MONTH["lte"], **FORM}}},
        {"key": "f", "range": {"lte": MONTH["lte"]}},
    ),
    "no condition but that it is not in a month": ({"not": "2024-02"}, None, None, None),
}


@pytest.mark.parametrize(("condition", "pinecone", "elasticsearch", "qdrant"), CASES.values(), ids=CASES)
def test_a_condition_is_sent_in_the_form_of_the_dialect(
    condition: Any, pinecone: Any, elasticsearch: Any, qdrant: Any
) -> None:
    filters = expanded_filters(Request(questions=("?",), filters={"ours": condition}))
    sent = {name: DIALECTS[name](filters, {"ours": "f"}, {}) for name in DIALECTS}
    unsent = {name for name, (_, fields) in sent.items() if fields == {"ours"}}
    expected = {"pinecone": pinecone, "elasticsearch": elasticsearch, "qdrant": qdrant}
    assert unsent == {name for name, clause in expected.items() if clause is None}
    assert sent["pinecone"].sent == (pinecone or {})
    assert sent["elasticsearch"].sent == {"bool": {"filter": [elasticsearch] if elasticsearch else []}}
    assert sent["qdrant"].sent == {"must": [qdrant] if qdrant else []}


@pytest.mark.parametrize("year", [2024, "2024"])
def test_a_year_is_a_number_except_in_the_date_of_publication(year: int | str) -> None:
    last = "2024-12-31T23:59:59.999999+00:00"
    by_bound = {"gte": "2024-01-01", "lt": "2024-01-01", "gt": last, "lte": last}
    for operator, date in by_bound.items():
        filters = {"published_at": {operator: year}, "year": {operator: year}}
        meant = expanded_filters(Request(questions=("?",), filters=filters))
        number: dict[str, Any] = {"key": "year", "range": {operator: 2024}}
        dates: dict[str, Any] = {"key": "stand", "range": {operator: date}}
        sent = DIALECTS["qdrant"](meant, {"published_at": "stand"}, {})
        assert sent == Translated({"must": [dates, number]}, frozenset())
    negated = expanded_filters(
        Request(questions=("?",), filters={"published_at": {"not": year}, "year": {"not": year}})
    )
    assert DIALECTS["elasticsearch"](negated, {}, {}).unsent == {"published_at"}
    equal = expanded_filters(Request(questions=("?",), filters={"published_at": [year, "tea"]}))
    spanned = {"gte": "2024-01-01", "lte": last}
    clauses = [
        {"terms": {"stand": ["tea"]}},
        {"range": {"stand": {**spanned, "format": "strict_date_optional_time"}}},
    ]
    assert DIALECTS["elasticsearch"](equal, {"published_at": "stand"}, {}) == Translated(
        {"bool": {"filter": [{"bool": {"should": clauses, "minimum_should_match": 1}}]}}, frozenset()
    )
    tests = [{"key": "stand", "match": {"any": ["tea"]}}, {"key": "stand", "range": spanned}]
    assert DIALECTS["qdrant"](equal, {"published_at": "stand"}, {}) == Translated(
        {"must": [{"should": tests}]}, frozenset()
    )
    assert DIALECTS["pinecone"](equal, {}, {}).unsent == {"published_at"}


def test_conditions_are_joined_and_the_id_and_source_of_a_document_stay_here() -> None:
    filters = {"a": {"gte": 1, "lt": 3}, "b": {"all": [["x"], {"contains": "y"}]}, "source": "wiki"}
    sent, unsent = DIALECTS["pinecone"](filters, {}, {})
    assert sent == {"$and": [{"a": {"$gte": 1}}, {"a": {"$lt": 3}}, {"b": {"$in": ["x"]}}]}
    assert unsent == {"b", "source"}
    assert DIALECTS["pinecone"]({}, {}, {}) == Translated({}, frozenset())


def test_a_condition_of_several_meanings_is_written_as_the_caller_wrote_it_in_our_own_form() -> None:
    filters = {"a": {"all": [{"gte": [5, "5"]}]}}
    expected = Translated({"b": {"all": [{"gte": 5}]}}, frozenset())
    assert DIALECTS["chorale"](filters, {"a": "b"}, {}) == expected
    written: dict[str, Any] = {
        "year": 2022,
        "years": ["2021", 2022],
        "open": True,
        "part": {"contains": "5", "not": ["a", 7]},
        "tags": {"all": ["a", {"not": "true"}, {"exists": False}]},
        "price": {"gt": 1.5, "lte": "20"},
    }
    meant = expanded_filters(Request(questions=("?",), filters=written))
    assert meant["open"] == [True, "true", "True", "TRUE"]
    sent = {**written, "price": {"gt": 1.5, "lte": 20}}
    assert DIALECTS["chorale"](meant, {}, {}) == Translated(sent, frozenset())
    # The endpoint knows neither our prefix nor the names of stores.
    own = {"document_id": "shop/5", "source": "shop", "year": 1}
    assert DIALECTS["chorale"](own, {}, {}) == Translated({"year": 1}, frozenset({"document_id", "source"}))


def test_qdrant_gets_what_the_index_of_a_field_answers_and_no_more() -> None:
    filters = {"a": [2024, "2024", "tea", True, "2024-05-01"], "b": {"gt": 5, "lt": "2024-05-01"}}
    expected: dict[QdrantIndex, tuple[list[Any], set[str]]] = {
        "keyword": ([{"key": "x", "match": {"any": ["2024", "tea", "2024-05-01"]}}], {"b"}),
        "bool": ([{"key": "x", "match": {"value": True}}], {"b"}),
        "float": (
            [{"key": "x", "range": {"gte": 2024, "lte": 2024}}, {"key": "b", "range": {"gt": 5}}],
            {"b"},
        ),
        "datetime": (
            [{"key": "x", "range": DAY}, {"key": "b", "range": {"lt": "2024-05-01"}}],
            {"b"},
        ),
    }
    for index, (clauses, unsent) in expected.items():
        translated = DIALECTS["qdrant"](filters, {"a": "x"}, {"a": index, "b": index})
        assert translated == Translated({"must": clauses}, frozenset(unsent))
    assert DIALECTS["qdrant"]({"a": "tea"}, {}, {"a": "integer"}) == Translated({"must": []}, frozenset("a"))


def test_the_table_has_every_dialect_that_can_be_declared() -> None:
    assert tuple(DIALECTS) == get_args(FilterDialect)


VALUES = [one for one in SCALARS if not isinstance(one, int) or abs(one) < 2**63]
"""Qdrant's engine takes no larger whole number."""


def in_pinecone(documents: list[dict[str, Any]], _: Path) -> FindIds:
    return lambda clause: {id_ for id_, fields in enumerate(documents) if meets(clause, fields)}


def in_qdrant(documents: list[dict[str, Any]], folder: Path) -> FindIds:
    """With Qdrant's own engine in process."""
    points = [(id_, {"dense": [1.0]}, fields) for id_, fields in enumerate(documents)]
    return Collection(folder / "drawn", points).matching_ids


@pytest.mark.parametrize(("dialect", "made"), [("pinecone", in_pinecone), ("qdrant", in_qdrant)])
def test_a_system_never_excludes_a_document_that_the_filter_lets_through(
    dialect: FilterDialect, made: Callable[[list[dict[str, Any]], Path], FindIds], tmp_path: Path
) -> None:
    drawn, excluded, sent_whole = random.Random(20_261_129), 0, 0
    odd: list[Any] = [None, [], [None], [[]], {}, [1, "a", None], VALUES[:3]]
    documents = [
        {field: drawn.choice([*VALUES, *odd]) for field in FIELDS[:2] if drawn.random() < 0.7}
        for _ in range(60)
    ]
    find = made(documents, tmp_path)
    for _ in range(300):
        filters = {drawn.choice(FIELDS[:2]): drawn_condition(drawn) for _ in range(drawn.randint(1, 2))}
        compiled, (clause, unsent) = compile_filters(filters), DIALECTS[dialect](filters, {}, {})
        sent_whole += not unsent
        hits = find(clause)
        missed = [one for id_, one in enumerate(documents) if id_ not in hits and compiled.matches(one)]
        assert missed == [], (filters, clause)
        excluded += len(documents) - len(hits)
    assert excluded > 1_000, "most conditions are sent"
    assert sent_whole > 50
