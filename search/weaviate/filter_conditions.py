"""Filters as conditions on a document's terms (`search.weaviate.filter_terms`), which Weaviate evaluates.

They match exactly the documents that `search.filters.CompiledFilters.matches` matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import time

from search.filters import compile_filters, date_span, is_number, long_part_warnings, operands
from search.weaviate import filter_terms as facets
from search.weaviate.filter_terms import DAYS, MOMENTS, NUMBERS, Scale


@dataclass(frozen=True, slots=True)
class AnyTerm:
    """The object has one of these terms; without terms, nothing matches."""

    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """One of the object's terms matches the pattern, in which `*` is any text."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Not:
    condition: Condition


@dataclass(frozen=True, slots=True)
class Every:
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Some:
    conditions: tuple[Condition, ...]


Condition = AnyTerm | Like | Not | Every | Some

NOTHING = AnyTerm(())
EVERYTHING = AnyTerm((facets.EVERY,))


def warnings(filters: Mapping[str, object]) -> tuple[str, ...]:
    """Reasons why conditions are invalid or cannot be expressed by terms; with any warning nothing matches."""
    inexact = {
        (field, operator): None
        for field, operator, operand in operands(filters)
        if operator in _RANGES and is_number(operand) and not facets.is_exact_bound(operand)
    }
    return (
        *compile_filters(filters).warnings,
        *long_part_warnings(filters, facets.LONGEST_PART),
        *(f"filter {field!r}: {operator} takes integers up to 2^64" for field, operator in inexact),
    )


def condition(filters: Mapping[str, object]) -> Condition:
    """The condition for an object.  Only for filters without `warnings`."""
    return Every(tuple(_of_field(field, wanted) for field, wanted in filters.items()))


def _of_field(field: str, wanted: object) -> Condition:
    if not isinstance(wanted, Mapping):
        return AnyTerm(tuple(term for choice in _choices(wanted) for term in _same(field, choice)))
    return Every(tuple(_of_operator(field, operator, operand) for operator, operand in wanted.items()))


def _of_operator(field: str, operator: str, operand: object) -> Condition:
    if operator == "exists":
        present = AnyTerm((facets.has_field(field),))
        return Not(present) if operand is False else present
    if operator == "not":
        return Not(_of_field(field, operand))
    if operator == "contains":
        return Some(tuple(_contains(field, choice) for choice in _choices(operand)))
    return AnyTerm(tuple(_range(field, operator, operand)))


def _choices(wanted: object) -> list[object]:
    return list(wanted) if isinstance(wanted, list | tuple) else [wanted]


def _same(field: str, wanted: object) -> Iterator[str]:
    if is_number(wanted):
        if wanted == wanted:
            yield facets.same_number(field, wanted)
    elif isinstance(wanted, str):
        yield facets.same_text(field, wanted)
        if (span := date_span(wanted)) is not None:
            first, last = span
            is_moment = first == last
            yield (
                MOMENTS.same(field, facets.moment_code(first)) if is_moment else facets.same_day(field, first)
            )
    else:
        yield facets.same_other(field, wanted)


def _contains(field: str, wanted: object) -> Condition:
    if isinstance(wanted, str):
        return Like(facets.has_part(field, wanted))
    return AnyTerm(tuple(_same(field, wanted)))


def _from(scale: Scale, field: str, code: str) -> Iterator[str]:
    yield scale.same(field, code)
    yield from scale.above(field, code)


def _until(scale: Scale, field: str, code: str) -> Iterator[str]:
    yield scale.same(field, code)
    yield from scale.below(field, code)


_RANGES: Mapping[str, Callable[[Scale, str, str], Iterator[str]]] = {
    "gt": Scale.above,
    "gte": _from,
    "lt": Scale.below,
    "lte": _until,
}


def _range(field: str, operator: str, operand: object) -> Iterator[str]:
    terms = _RANGES[operator]
    if is_number(operand):
        if operand == operand:
            yield from terms(NUMBERS, field, facets.number_code(operand))
    elif (span := date_span(operand)) is not None:
        bound = span[1] if operator in ("gt", "lte") else span[0]
        yield from terms(MOMENTS, field, facets.moment_code(bound))
        # A bare date spans its whole day: the bound's own day is included only if all of it is.
        if operator == "gte" and bound.time() != time.min:
            terms = Scale.above
        if operator == "lte" and bound.time() != time.max:
            terms = Scale.below
        yield from terms(DAYS, field, facets.day_code(bound))
