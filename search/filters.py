"""Filters, compiled once: `{field: value | [values] | {gt, gte, lt, lte, exists, not, contains}}`.

A list, in the filter or in the document, means any of its elements.  Ranges compare numbers with numbers and ISO
8601 dates with dates.  A date without a zone is in UTC.  A bare date is its whole day: `lte: 2024-05-01` includes
all of that day and `gt: 2024-05-01` starts with the next.  A moment equals the bare date of its day.  `contains`
looks for a part of a text, ignoring case, or for one element of a list.  `not` takes a value, values or operators.
A field that is missing, null or an empty list fails every condition except `not` and `exists: false`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeGuard

Fields = Mapping[str, Any]
"""The fields of a document that filters see: JSON values by field name."""
_Test = Callable[[list[Any]], bool]
_Match = Callable[[object], bool]

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_DAY = timedelta(days=1) - timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class CompiledFilters:
    """All conditions of one request."""

    key: str
    """Equal for equal filters, whatever the order of their fields."""
    tests: tuple[tuple[str, _Test], ...]
    warnings: tuple[str, ...] = ()
    """Reasons why conditions are invalid; with any warning nothing matches."""

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(field for field, _ in self.tests)

    def matches(self, fields: Fields) -> bool:
        return not self.warnings and all(test(elements(fields, field)) for field, test in self.tests)


def compile_filters(filters: Mapping[str, Any]) -> CompiledFilters:
    """Never raises: an invalid condition matches nothing and is named in `warnings`."""
    warnings: list[str] = []
    tests = tuple((field, _condition(field, wanted, warnings)) for field, wanted in filters.items())
    return CompiledFilters(json.dumps(filters, sort_keys=True, default=repr), tests, tuple(warnings))


def unknown_field_warning(field: str) -> str:
    return f"filter {field!r}: no document has this field, so nothing matches"


def long_part_warnings(filters: Mapping[str, Any], longest: int) -> tuple[str, ...]:
    """Warnings for a store whose `contains` is limited to `longest` characters (casefolded)."""
    said = (
        f"filter {field!r}: contains takes up to {longest:,} characters"
        for field, operator, operand in operands(filters)
        if operator == "contains" and isinstance(operand, str) and len(operand.casefold()) > longest
    )
    return tuple(dict.fromkeys(said))


def operands(filters: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Field, operator and operand of each condition, also inside `not`; each element of a list by itself."""
    for field, wanted in filters.items():
        for operator, operand in wanted.items() if isinstance(wanted, Mapping) else ():
            if operator == "not":
                yield from operands({field: operand})
            else:
                for one in operand if isinstance(operand, list | tuple) else [operand]:
                    yield field, operator, one


def elements(fields: Fields, field: str) -> list[Any]:
    """The values of a field as a list; `a.b` reaches into an object unless a field has that whole name."""
    value: Any = fields.get(field)
    if value is None and "." in field:
        value = fields
        for part in field.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    if value is None:
        return []
    return [element for element in value if element is not None] if isinstance(value, list) else [value]


def field_names(fields: Mapping[str, object], above: str = "") -> Iterator[str]:
    """Every name that a filter can use: `a`, and `a.b` inside an object."""
    for name, value in fields.items():
        yield f"{above}{name}"
        if isinstance(value, Mapping):
            yield from field_names(value, f"{above}{name}.")


def all_terms(
    fields: Fields, has_field: Callable[[str], str], terms: Callable[[str, Any], Iterator[str]]
) -> Iterator[str]:
    """The terms of a document's fields for a server's index: `has_field` for presence, `terms` for each value."""
    for field in dict.fromkeys(field_names(fields)):
        if values := elements(fields, field):
            yield has_field(field)
        for value in values:
            yield from terms(field, value)


def _condition(field: str, wanted: object, warnings: list[str]) -> _Test:
    if not isinstance(wanted, Mapping):
        return _any_of(_equals, wanted)
    tests = [_operator(field, operator, operand, warnings) for operator, operand in wanted.items()]
    return lambda values: all(test(values) for test in tests)


def _operator(field: str, operator: str, operand: object, warnings: list[str]) -> _Test:
    if operator in RANGES:
        return _range(field, operator, operand, warnings)
    if operator == "contains":
        return _any_of(_contains, operand)
    if operator == "not":
        negated = _condition(field, operand, warnings)
        return lambda values: not negated(values)
    if operator == "exists":
        if not isinstance(operand, bool):
            warnings.append(f"filter {field!r}: exists takes true or false, not {operand!r:.40}")
        return lambda values: bool(values) is (operand is not False)
    choices = ", ".join((*RANGES, "exists", "not", "contains"))
    warnings.append(f"filter {field!r}: no operator {operator!r}; there are: {choices}")
    return _never


def _never(_values: list[Any]) -> bool:
    return False


def _any_of(compiler: Callable[[object], _Match], wanted: object) -> _Test:
    choices = [compiler(choice) for choice in (wanted if isinstance(wanted, list | tuple) else [wanted])]
    return lambda values: any(choice(value) for value in values for choice in choices)


def is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equals(wanted: object) -> _Match:
    if isinstance(wanted, bool):
        return lambda value: value is wanted
    if is_number(wanted):
        return lambda value: is_number(value) and bool(value == wanted)
    span = date_span(wanted)
    if span is None:
        return lambda value: bool(value == wanted)
    first, last = span

    def same_moment(value: object) -> bool:
        if value == wanted:
            return True
        found = date_span(value)
        return found is not None and first <= found[0] and found[1] <= last

    return same_moment


def _contains(wanted: object) -> _Match:
    if not isinstance(wanted, str):
        return _equals(wanted)
    part = wanted.casefold()
    return lambda value: isinstance(value, str) and part in value.casefold()


RANGES: dict[str, Callable[[Any, Any], bool]] = {
    "gt": lambda value, bound: value[0] > bound[1],
    "gte": lambda value, bound: value[0] >= bound[0],
    "lt": lambda value, bound: value[1] < bound[0],
    "lte": lambda value, bound: value[1] <= bound[1],
}
"""Both sides are (first, last), inclusive; for a number or a moment both are equal."""


def _range(field: str, operator: str, operand: object, warnings: list[str]) -> _Test:
    to_span: Callable[[object], Any] = _number_span if is_number(operand) else date_span
    bound = to_span(operand)
    if bound is None:
        warnings.append(f"filter {field!r}: {operator} takes a number or an ISO 8601 date, not {operand!r}")
        return _never
    holds = RANGES[operator]

    def within(value: object) -> bool:
        found = to_span(value)
        return found is not None and holds(found, bound)

    return lambda values: any(within(value) for value in values)


def _number_span(value: object) -> tuple[float, float] | None:
    return (value, value) if is_number(value) else None


def date_span(value: object) -> tuple[datetime, datetime] | None:
    """First and last moment of an ISO 8601 date; None for any other value."""
    if not isinstance(value, str) or not _DATE.match(value):
        return None
    try:
        moment = datetime.fromisoformat(value)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
    return (moment, moment + _DAY) if len(value) == 10 else (moment, moment)
