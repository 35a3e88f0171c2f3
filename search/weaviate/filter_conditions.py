"""Filters (`search.filters`) as Weaviate's filters on a document's terms (`search.weaviate.filter_terms`).

They match exactly the documents that `search.filters.CompiledFilters.matches` matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import time

from weaviate.classes.query import Filter
from weaviate.collections.classes.filters import FilterReturn

from search.filters import (
    RANGES,
    choices,
    compile_filters,
    date_span,
    is_number,
    long_part_warnings,
    operands,
)
from search.weaviate import filter_terms as facets
from search.weaviate.filter_terms import DAYS, MOMENTS, NUMBERS, Scale

_FACETS = Filter.by_property("facets")
EVERYTHING = _FACETS.contains_any([facets.EVERY])
_NOTHING = Filter.not_(EVERYTHING)


def warnings(filters: Mapping[str, object]) -> tuple[str, ...]:
    """Reasons why conditions are invalid or cannot be expressed by terms; with any warning nothing matches."""
    inexact = (
        f"filter {field!r}: {operator} takes integers up to 2^64"
        for field, operator, operand in operands(filters)
        if operator in RANGES and is_number(operand) and not facets.is_exact_bound(operand)
    )
    return (
        *compile_filters(filters).warnings,
        *long_part_warnings(filters, facets.LONGEST_PART),
        *dict.fromkeys(inexact),
    )


def condition(filters: Mapping[str, object]) -> FilterReturn:
    """The filter for an object.  Only for filters without `warnings`."""
    return _every(_of_field(field, wanted) for field, wanted in filters.items())


def has_field(field: str) -> FilterReturn:
    return _any_term([facets.has_field(field)])


def _of_field(field: str, wanted: object) -> FilterReturn:
    if not isinstance(wanted, Mapping):
        return _any_term(term for choice in choices(wanted) for term in _same(field, choice))
    return _every(_of_operator(field, operator, operand) for operator, operand in wanted.items())


def _of_operator(field: str, operator: str, operand: object) -> FilterReturn:
    if operator == "exists":
        return Filter.not_(has_field(field)) if operand is False else has_field(field)
    if operator == "not":
        return Filter.not_(_of_field(field, operand))
    if operator == "all":
        return _every(_of_field(field, one) for one in choices(operand))
    if operator == "contains":
        parts = [_contains(field, choice) for choice in choices(operand)]
        return Filter.any_of(parts) if parts else _NOTHING
    return _any_term(_range(field, operator, operand))


def _every(conditions: Iterable[FilterReturn]) -> FilterReturn:
    return Filter.all_of([*conditions] or [EVERYTHING])


def _any_term(terms: Iterable[str]) -> FilterReturn:
    """Matches an object that has one of these terms; without terms, nothing matches."""
    chosen = list(terms)
    return _FACETS.contains_any(chosen) if chosen else _NOTHING


def _same(field: str, wanted: object) -> Iterator[str]:
    if is_number(wanted):
        if wanted == wanted:
            yield facets.same_number(field, wanted)
    elif isinstance(wanted, str):
        yield facets.same_text(field, wanted)
        if (span := date_span(wanted)) is not None:
            first, last = span
            moment = MOMENTS.same(field, facets.moment_code(first))
            yield moment if first == last else facets.same_day(field, first)
    else:
        yield facets.same_other(field, wanted)


def _contains(field: str, wanted: object) -> FilterReturn:
    if isinstance(wanted, str):
        return _FACETS.like(facets.has_part(field, wanted))
    return _any_term(_same(field, wanted))


def _bounded(scale: Scale, field: str, operator: str, code: str) -> Iterator[str]:
    if operator in ("gte", "lte"):
        yield scale.same(field, code)
    yield from (scale.above if operator in ("gt", "gte") else scale.below)(field, code)


def _range(field: str, operator: str, operand: object) -> Iterator[str]:
    if is_number(operand):
        if operand == operand:
            yield from _bounded(NUMBERS, field, operator, facets.number_code(operand))
    elif (span := date_span(operand)) is not None:
        bound = span[1] if operator in ("gt", "lte") else span[0]
        yield from _bounded(MOMENTS, field, operator, facets.moment_code(bound))
        # A bare date spans its whole day: the bound's own day is included only if all of it is.
        if operator == "gte" and bound.time() != time.min:
            operator = "gt"
        if operator == "lte" and bound.time() != time.max:
            operator = "lt"
        yield from _bounded(DAYS, field, operator, facets.day_code(bound))
