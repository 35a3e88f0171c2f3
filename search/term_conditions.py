"""Filters (`search.filters`) as a server's conditions on a document's terms (`search.filter_terms`).

They match exactly the documents that `search.filters.CompiledFilters.matches` matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import time
from typing import Generic, TypeVar

from search import filter_terms as facets
from search.filter_terms import DAYS, MOMENTS, NUMBERS, NUMERALS, Scale
from search.filters import (
    RANGES,
    choices,
    compile_filters,
    composed,
    date_span,
    is_number,
    long_part_warnings,
    numeral,
    operands,
    period,
    unknown_field_warnings,
)
from search.protocol import Search

_C = TypeVar("_C")


def warnings(filters: Mapping[str, object], longest_part: int) -> tuple[str, ...]:
    """Reasons why conditions are invalid or cannot be expressed by terms; with any warning nothing matches."""
    inexact = (
        f"filter {field!r}: {operator} takes integers up to 2^64"
        for field, operator, operand in operands(filters)
        if operator in RANGES and is_number(operand) and not facets.is_exact_bound(operand)
    )
    return (
        *compile_filters(filters).warnings,
        *long_part_warnings(filters, longest_part),
        *dict.fromkeys(inexact),
    )


@dataclass(frozen=True, slots=True)
class SearchConditions(Generic[_C]):
    """The conditions that the filters and exclusions of a search put on each passage."""

    parts: tuple[_C, ...]
    """A passage must meet all of them."""
    fields: tuple[str, ...]
    """Nothing matches unless some document has each of these fields."""
    complaints: tuple[str, ...]
    """Reasons why conditions are invalid; with any complaint nothing matches."""

    def warnings(self, known: Iterable[object]) -> tuple[str, ...]:
        """With any warning nothing matches; `known` says of each of `fields` whether some document has it."""
        return self.complaints + unknown_field_warnings(self.fields, known)


@dataclass(frozen=True)
class Conditions(Generic[_C]):
    """How a server expresses conditions; only for filters without `warnings`."""

    longest_part: int
    """The characters of the longest text for `contains`."""
    has_id: Callable[[Sequence[str]], _C]
    """The document has one of these ids."""

    has_any: Callable[[Sequence[str]], _C]
    """The document has one of these terms."""
    has_like: Callable[[str, str], _C]
    """The document has a term that begins with the first text, followed anywhere by the second."""
    every: Callable[[list[_C]], _C]
    some: Callable[[list[_C]], _C]
    negated: Callable[[_C], _C]

    @property
    def everything(self) -> _C:
        return self.has_any([facets.EVERY])

    def for_search(self, search: Search) -> SearchConditions[_C]:
        """Never raises: invalid conditions are named in `complaints`."""
        filters = search.filters or {}
        complaints = warnings(filters, self.longest_part)
        parts = [] if complaints else [self.of({field: wanted}) for field, wanted in filters.items()]
        if search.only_ids:
            parts.append(self.has_id(search.only_ids))
        if search.exclude_ids:
            parts.append(self.negated(self.has_id(search.exclude_ids)))
        return SearchConditions(tuple(parts), compile_filters(filters).fields, complaints)

    def of(self, filters: Mapping[str, object]) -> _C:
        return self._every(
            self._field_condition(composed(field), composed(wanted)) for field, wanted in filters.items()
        )

    def has_field(self, field: str) -> _C:
        return self.has_any([facets.has_field(field)])

    def _field_condition(self, field: str, operand: object) -> _C:
        if not isinstance(operand, Mapping):
            return self._any_term(term for choice in choices(operand) for term in _same(field, choice))
        return self._every(
            self._operator_condition(field, operator, part) for operator, part in operand.items()
        )

    def _operator_condition(self, field: str, operator: str, operand: object) -> _C:
        if operator == "exists":
            return self.negated(self.has_field(field)) if operand is False else self.has_field(field)
        if operator == "not":
            return self.negated(self._field_condition(field, operand))
        if operator == "all":
            return self._every(self._field_condition(field, part) for part in choices(operand))
        if operator == "contains":
            parts = [self._contains(field, choice) for choice in choices(operand)]
            return self.some(parts) if parts else self.negated(self.everything)
        return self._any_term(term for bound in choices(operand) for term in _range(field, operator, bound))

    def _contains(self, field: str, part: object) -> _C:
        if isinstance(part, str):
            return self.has_like(*facets.part_of(field, part))
        return self._any_term(_same(field, part))

    def _every(self, conditions: Iterable[_C]) -> _C:
        return self.every([*conditions] or [self.everything])

    def _any_term(self, terms: Iterable[str]) -> _C:
        chosen = list(terms)
        return self.has_any(chosen) if chosen else self.negated(self.everything)


def _same(field: str, value: object) -> Iterator[str]:
    if is_number(value):
        if value == value:
            yield facets.same_number(field, value)
    elif isinstance(value, str):
        yield facets.same_text(field, value)
        if (span := date_span(value)) is not None:
            first, last = span
            moment = MOMENTS.same(field, facets.moment_code(first))
            yield moment if first == last else facets.same_day(field, first)
        elif period(value) is not None:
            yield from facets.same_period(field, value)
    else:
        yield facets.same_other(field, value)


def _bounded(scale: Scale, field: str, operator: str, code: str) -> Iterator[str]:
    if operator in ("gte", "lte"):
        yield scale.same(field, code)
    yield from (scale.above if operator in ("gt", "gte") else scale.below)(field, code)


def _range(field: str, operator: str, operand: object) -> Iterator[str]:
    if is_number(operand) and operand == operand:
        yield from _bounded(NUMBERS, field, operator, facets.number_code(operand))
    if (number := numeral(operand)) is not None:
        yield from _bounded(NUMERALS, field, operator, facets.number_code(number))
    if (span := period(operand)) is not None:
        bound = span[1] if operator in ("gt", "lte") else span[0]
        yield from _bounded(MOMENTS, field, operator, facets.moment_code(bound))
        # A bare date spans its whole day: the bound's own day is included only if all of it is.
        if operator == "gte" and bound.time() != time.min:
            operator = "gt"
        if operator == "lte" and bound.time() != time.max:
            operator = "lt"
        yield from _bounded(DAYS, field, operator, facets.day_code(bound))
