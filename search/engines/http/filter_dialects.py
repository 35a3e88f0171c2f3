"""A request's filters in the query languages of other systems.

A condition that a language cannot express is left out, so that the other system finds too much and never too little; the source
compares the condition itself.  The other system compares values by the types of its own fields: a range has numbers alone, and no
texts that are numerals.  So a year is a number, except in `published_at`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from models.declarations.sources import FilterDialect, QdrantIndex
from search.filter_meanings import meanings
from search.filters import OWN_FIELDS, RANGES, choices, is_number, numeral, period

Clause = dict[str, Any]
Span = tuple[datetime, datetime]


class Translated(NamedTuple):
    sent: Clause
    """What takes the place of `{filter}`."""
    unsent: frozenset[str]
    """The fields with a condition that is not in `sent`."""


@dataclass(frozen=True)
class _Language:
    """How a system expresses conditions on a field; None for what it cannot express."""

    same: Callable[[str, Sequence[Any], Sequence[Span]], Clause | None]
    """The field has one of these values, or a date in one of these spans.  Several values may mean the same."""
    bounded: Callable[[str, str, Any], Clause | None]
    """Field, operator of RANGES, and a number, or a date with which the system compares its own dates as we do."""
    exists: Callable[[str, bool], Clause | None]
    every: Callable[[list[Clause]], Clause]
    negated: Callable[[Clause], Clause | None]
    """Returns None also if the system does not say that documents without the field meet the negated condition too."""


def _in_language(
    language: _Language, filters: Mapping[str, Any], names: Mapping[str, str], _: object = None
) -> Translated:
    sent: list[Clause] = []
    unsent: set[str] = set()
    for field, condition in filters.items():
        # The id and the source of a document are not those that the other system has.
        name, is_date = names.get(field, field), field == "published_at"
        clauses = [None] if field in OWN_FIELDS else [*_clauses(language, name, condition, is_date)]
        sent += [clause for clause in clauses if clause is not None]
        unsent |= {field} if None in clauses else set()
    return Translated(language.every(sent), frozenset(unsent))


def _clauses(language: _Language, field: str, condition: Any, is_date: bool) -> Iterator[Clause | None]:
    """All must hold; None stands for one that the language cannot express."""
    for operator, operand in (condition if isinstance(condition, Mapping) else {"": condition}).items():
        values = choices(operand)
        years = [text for text in map(str, values) if is_date and numeral(text) is not None and period(text)]
        match operator:
            case "all":
                for part in values:
                    yield from _clauses(language, field, part, is_date)
            case "exists":
                yield language.exists(field, operand is not False)
            case "" if values:
                spans = filter(None, map(period if is_date else _day_or_month, values))
                yield language.same(field, [one for one in values if str(one) not in years], [*spans])
            case "not" if not values:
                pass
            # A negation is sent only for values that the system compares exactly as we do.
            case "not" if not (isinstance(operand, Mapping) or years or any(map(_day_or_month, values))):
                clause = language.same(field, values, [])
                yield clause and language.negated(clause)
            case _:
                bound = _bound(years or operand) if operator in RANGES else None
                span = period(bound) if years else _day_or_month(bound)
                bound = bound if is_number(bound) else span and _date_bound(operator, span)
                yield None if bound is None else language.bounded(field, operator, bound)


def _bound(operand: Any) -> Any:
    """The bound that is sent.  Stores compare with a number and with its numeral; the number is sent."""
    return operand[0] if isinstance(operand, list) else operand


def _distinct(values: Sequence[Any]) -> list[Any]:
    """Of values that mean the same only the first, which is the one that a caller wrote."""
    distinct, known = list[Any](), set[str]()
    for value in values:
        distinct += [] if repr(value) in known else [value]
        known.update(map(repr, meanings(value)))
    return distinct


def _as_written(condition: Any, operator: str = "") -> Any:
    """The condition as a caller writes it."""
    if isinstance(condition, Mapping):
        return {name: _as_written(part, name) for name, part in condition.items()}
    if operator == "all":
        return [*map(_as_written, condition)]
    if not isinstance(condition, list | tuple):
        return condition
    written = _distinct(condition)
    return written[0] if len(written) == 1 < len(condition) else written


def _own_form(filters: Mapping[str, Any], names: Mapping[str, str], _: object) -> Translated:
    sent = {
        names.get(field, field): _as_written(condition)
        for field, condition in filters.items()
        if field not in OWN_FIELDS
    }
    return Translated(sent, frozenset(filters.keys() & OWN_FIELDS))


def _day_or_month(value: object) -> Span | None:
    return period(value) if numeral(value) is None else None


def _date_bound(operator: str, span: Span) -> str:
    """A date such that moments and bare dates of the other system compare with it as ours do."""
    first, last = span
    if first != last and operator in ("gte", "lt"):
        return first.date().isoformat()
    return (last if operator in ("gt", "lte") else first).isoformat()


def _dates(spans: Sequence[Span]) -> Iterator[dict[str, str]]:
    """The range of each span."""
    for span in spans:
        yield {operator: _date_bound(operator, span) for operator in ("gte", "lte")}


def _pinecone_same(field: str, values: Sequence[Any], spans: Sequence[Span]) -> Clause | None:
    if spans:
        return None  # it has no dates, and a text does not equal the moments of its day
    texts = [value for value in values if isinstance(value, str)]
    numbers = [value for value in values if is_number(value)]
    clauses: list[Clause] = [{field: {"$in": group}} for group in (texts, numbers) if group]
    clauses += [{field: {"$eq": value}} for value in values if isinstance(value, bool)]
    return clauses[0] if len(clauses) == 1 else {"$or": clauses}


_DATES = {"format": "strict_date_optional_time"}
"""Dates are sent in this form, whatever form the mapping expects."""


def _elasticsearch_same(field: str, values: Sequence[Any], spans: Sequence[Span]) -> Clause:
    # A field of true and false refuses the text "True".
    distinct = _distinct(values)
    plain = [value for value in distinct if _day_or_month(value) is None]
    clauses: list[Clause] = [{"terms": {field: plain}}] if plain else []
    # Unlike `terms`, a lenient `match` finds the text of a keyword and is no error where the mapping expects another form of dates.
    lenient = {"operator": "and", "lenient": True}
    clauses += [{"match": {field: {"query": value, **lenient}}} for value in distinct if _day_or_month(value)]
    clauses += [{"range": {field: {**dates, **_DATES}}} for dates in _dates(spans)]
    return clauses[0] if len(clauses) == 1 else {"bool": {"should": clauses, "minimum_should_match": 1}}


def _is_rounded(value: Any) -> bool:
    """Whether Qdrant, which compares numbers as floats, confuses this number with others.  A negation or a strict bound would then
    exclude too much."""
    return is_number(value) and abs(value) >= 2**53


def _qdrant(indexes: Mapping[str, QdrantIndex]) -> _Language:
    """`indexes` has the index of a field by Qdrant's own name.  A condition that the index does not answer is not sent."""

    def answers(field: str, *kinds: QdrantIndex) -> bool:
        return indexes.get(field, kinds[0]) in kinds

    def same(field: str, values: Sequence[Any], spans: Sequence[Span]) -> Clause | None:
        if any(map(_is_rounded, values)):
            return None
        texts = [value for value in values if isinstance(value, str)]
        tests: list[Clause] = [{"match": {"any": texts}}] if texts and answers(field, "keyword") else []
        if answers(field, "bool"):
            tests += [{"match": {"value": value}} for value in values if isinstance(value, bool)]
        if answers(field, "integer", "float"):  # `match` would tell 5 from 5.0
            tests += [{"range": {"gte": value, "lte": value}} for value in values if is_number(value)]
        if answers(field, "datetime"):
            tests += [{"range": bounds} for bounds in _dates(spans)]
        clauses: list[Clause] = [{"key": field, **test} for test in tests]
        return clauses[0] if len(clauses) == 1 else {"should": clauses} if clauses else None

    def bounded(field: str, operator: str, bound: Any) -> Clause | None:
        kinds: tuple[QdrantIndex, ...] = ("integer", "float") if is_number(bound) else ("datetime",)
        is_sent = not _is_rounded(bound) and answers(field, *kinds)
        return {"key": field, "range": {operator: bound}} if is_sent else None

    def exists(field: str, has: bool) -> Clause:
        empty: Clause = {"is_empty": {"key": field}}
        # To Qdrant `[null]` is not empty.
        return {"must_not": [empty]} if has else {"should": [empty, {"is_null": {"key": field}}]}

    return _Language(
        same, bounded, exists, lambda clauses: {"must": clauses}, lambda clause: {"must_not": [clause]}
    )


_PINECONE = _Language(
    _pinecone_same,
    lambda field, operator, bound: {field: {f"${operator}": bound}} if is_number(bound) else None,
    lambda field, has: {field: {"$exists": True}} if has else None,
    lambda clauses: {"$and": clauses} if len(clauses) > 1 else clauses[0] if clauses else {},
    lambda _: None,
)
_ELASTICSEARCH = _Language(
    _elasticsearch_same,
    lambda field, operator, bound: {
        "range": {field: {operator: bound, **({} if is_number(bound) else _DATES)}}
    },
    lambda field, has: (
        {"exists": {"field": field}} if has else {"bool": {"must_not": [{"exists": {"field": field}}]}}
    ),
    lambda clauses: {"bool": {"filter": clauses}},
    lambda clause: {"bool": {"must_not": [clause]}},
)

DIALECTS: Mapping[
    FilterDialect,
    Callable[[Mapping[str, Any], Mapping[str, str], Mapping[str, QdrantIndex]], Translated],
] = {
    "chorale": _own_form,
    "elasticsearch": partial(_in_language, _ELASTICSEARCH),
    "pinecone": partial(_in_language, _PINECONE),
    "qdrant": lambda filters, names, indexes: _in_language(
        _qdrant({names.get(field, field): index for field, index in indexes.items()}), filters, names
    ),
}
"""By the name that `filter_dialect` has: filters, the other system's name of each field that has another there, and the indexes that
Qdrant has -> what is sent."""
