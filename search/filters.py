"""Filters, compiled once: `{field: value | [values] | {gt, gte, lt, lte, exists, not, contains, all}}`.

A list, in the filter or in the document, means any of its elements.  Ranges compare numbers with numbers and ISO
8601 dates with dates, and a bound that is a numeral such as `"2020"` compares with numerals.  A date without a zone is in UTC.  A bare date is its whole day: `lte: 2024-05-01` includes
all of that day and `gt: 2024-05-01` starts with the next.  A moment equals the bare date of its day.  In a condition
`2024-05` is that whole month, and the text `"2024"` is a numeral and also that whole year.  `contains`
looks for a part of a text, ignoring case, or for one element of a list.  `not` takes a value, values or operators, `all` a
list of conditions.  A field that is missing, null or an empty list fails every condition except `not` and `exists:
false`.  Such a condition on a field that no document has is taken for a mistake: a warning names the field, unless the condition is
an `all`.  Texts and names are compared in Unicode's composed form (NFC).
"""

from __future__ import annotations

import json
import re
import unicodedata
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeGuard

Fields = Mapping[str, Any]
"""The fields of a document that filters see: JSON values by field name."""
_Test = Callable[["Values"], bool]
_Span = tuple[Any, Any]
"""First and last value, inclusive; equal for a number and a moment."""

_NUMERAL = re.compile(r"-?(0|[1-9]\d{0,299})(\.\d{1,300})?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_PERIOD = re.compile(r"[1-9]\d{3}(-\d\d)?", re.ASCII)
_DAY = timedelta(days=1) - timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class CompiledFilters:
    """All conditions of one request."""

    key: str
    """Equal for equal filters, whatever the order of their fields."""
    tests: tuple[tuple[str, _Test], ...]
    warnings: tuple[str, ...] = ()
    """Reasons why conditions are invalid; with any warning nothing matches."""

    fields: tuple[str, ...] = ()
    """Nothing matches, with a warning, unless some document has each of these fields."""

    def matches(self, fields: Fields) -> bool:
        return self.judged(fields)[0]

    def judged(self, fields: Fields) -> tuple[bool, list[bool]]:
        """Whether a document matches, and which of `self.fields` it has."""
        matches, has = not self.warnings, {}
        for field, test in self.tests:
            listed = elements(fields, field)
            has[field] = bool(listed)
            values = Values(listed) if listed else _NOTHING
            matches = matches and test(values)
        return matches, [has[field] for field in self.fields]


class Values:
    """The values of one document's field.  Each form of them is made once, whatever the number of conditions."""

    __slots__ = ("dates", "folded", "listed", "moments", "numbers", "numerals", "plain", "spans")
    plain: frozenset[object]
    spans: list[_Span]
    """Of all dates."""
    dates: frozenset[datetime | str]
    """Each moment, and the day, month and year of each moment or bare date, such as `2024-05`."""
    numbers: _Span | None
    numerals: _Span | None
    """Of texts that are numerals."""
    moments: _Span | None
    folded: str | None
    """All texts, with NUL between them: no text of a document and no part that is looked for has one."""

    def __init__(self, listed: list[Any]) -> None:
        self.listed = listed

    def __getattr__(self, form: str) -> Any:
        made = _FORMS[form](self)
        setattr(self, form, made)
        return made


def _dates(values: Values) -> frozenset[datetime | str]:
    moments = (first for first, last in values.spans if first == last)
    days = [first.date().isoformat() for first, _ in values.spans]
    return frozenset([*moments, *(day[:length] for day in days for length in (4, 7, 10))])


def _folded(values: Values) -> str | None:
    texts = [value.casefold() for value in values.listed if isinstance(value, str)]
    return "\0".join(texts) if texts else None


def _extent(spans: list[_Span]) -> _Span | None:
    """Has the relations of RANGES to a bound that any of these has."""
    return (max(first for first, _ in spans), min(last for _, last in spans)) if spans else None


_FORMS: dict[str, Callable[[Values], Any]] = {
    "plain": lambda values: frozenset([_plain(value) for value in values.listed]),
    "spans": lambda values: [span for value in values.listed if (span := date_span(value)) is not None],
    "dates": _dates,
    "numbers": lambda values: _extent([(one, one) for one in values.listed if is_number(one)]),
    "numerals": lambda values: _extent(
        [(one, one) for value in values.listed if (one := numeral(value)) is not None]
    ),
    "moments": lambda values: _extent(values.spans),
    "folded": _folded,
}


_NOTHING = Values([])


def _plain(value: object) -> object:
    """Equal for equal values; None if it is no value of a condition."""
    if isinstance(value, bool):
        return (value,)
    return value if isinstance(value, str | int | float) else None


def compile_filters(filters: Mapping[str, Any]) -> CompiledFilters:
    """Never raises: an invalid condition matches nothing and is named in `warnings`."""
    warnings: list[str] = []
    conditions = [(composed(field), composed(wanted)) for field, wanted in filters.items()]
    tests = tuple((field, _condition(field, wanted, warnings)) for field, wanted in conditions)
    expected = tuple(
        field
        for (field, wanted), (_, test) in zip(conditions, tests, strict=True)
        if not (isinstance(wanted, Mapping) and "all" in wanted) and not test(_NOTHING)
    )
    return CompiledFilters(
        json.dumps(filters, sort_keys=True, default=repr), tests, tuple(warnings), expected
    )


def unknown_field_warning(field: str) -> str:
    own = "; a document's own title and text are no metadata" if field in ("title", "text") else ""
    return f"filter {field!r}: no document has this field, so nothing matches{own}"


def unknown_field_warnings(fields: Iterable[str], known: Iterable[object]) -> tuple[str, ...]:
    """`known` says of each field whether some document has it."""
    return tuple(unknown_field_warning(field) for field, has in zip(fields, known, strict=True) if not has)


def long_part_warnings(filters: Mapping[str, Any], longest: int) -> tuple[str, ...]:
    """Warnings for a store whose `contains` is limited to `longest` characters (casefolded)."""
    warnings = (
        f"filter {field!r}: contains takes up to {longest:,} characters"
        for field, operator, operand in operands(filters)
        if operator == "contains" and isinstance(operand, str) and len(operand.casefold()) > longest
    )
    return tuple(dict.fromkeys(warnings))


def operands(filters: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Field, operator and operand of each condition, also inside `not`; each element of a list by itself."""
    for field, wanted in filters.items():
        for operator, operand in wanted.items() if isinstance(wanted, Mapping) else ():
            if operator == "not":
                yield from operands({field: operand})
            elif operator == "all":
                for one in operand if isinstance(operand, list | tuple) else ():
                    yield from operands({field: one})
            else:
                for one in choices(operand):
                    yield field, operator, one


OWN_FIELDS = ("document_id", "source")
"""The fields of a document itself, whatever its metadata have under these names."""


def filter_fields(document_id: str, source: str, metadata: Mapping[str, Any]) -> Fields:
    """The fields that filters see: the metadata, `document_id` and `source`.

    Metadata with one of these two names are `metadata.document_id` and `metadata.source`.
    """
    fields: dict[str, Any] = composed(metadata)
    fields |= {f"metadata.{name}": fields[name] for name in OWN_FIELDS if name in fields}
    return {**fields, "document_id": composed(document_id), "source": composed(source)}


def composed(value: Any) -> Any:
    """A JSON value with all its texts and names in NFC."""
    if isinstance(value, str):
        return value if value.isascii() else unicodedata.normalize("NFC", value)
    if isinstance(value, Mapping):
        return {composed(name): composed(one) for name, one in value.items()}
    return [composed(one) for one in value] if isinstance(value, list | tuple) else value


def elements(fields: Fields, field: str) -> list[Any]:
    """The values of a field as a list; `a.b` reaches into an object, or a list of them, unless a field has that whole name."""
    values = _listed(fields.get(field))
    if not values and "." in field:
        values = [fields]
        for part in field.split("."):
            values = [
                one for inside in values if isinstance(inside, Mapping) for one in _listed(inside.get(part))
            ]
    return values


def _listed(value: Any) -> list[Any]:
    values = value if isinstance(value, list) else [value]
    return [one for one in values if one is not None]


def field_names(fields: Mapping[str, object], above: str = "") -> Iterator[str]:
    """Every name that a filter can use: `a`, and `a.b` inside an object or a list of them."""
    for name, value in fields.items():
        yield f"{above}{name}"
        for inside in _listed(value):
            if isinstance(inside, Mapping):
                yield from field_names(inside, f"{above}{name}.")


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
        return _equals(choices(wanted))
    tests = [_operator(field, operator, operand, warnings) for operator, operand in wanted.items()]
    return lambda values: all(test(values) for test in tests)


def _operator(field: str, operator: str, operand: object, warnings: list[str]) -> _Test:
    if operator in RANGES:
        return _range(field, operator, operand, warnings)
    if operator == "contains":
        return _contains(choices(operand))
    if operator == "not":
        negated = _condition(field, operand, warnings)
        return lambda values: not negated(values)
    if operator == "all":
        if not isinstance(operand, list | tuple):
            warnings.append(f"filter {field!r}: all takes a list of conditions, not {operand!r:.40}")
            return _never
        tests = [_condition(field, one, warnings) for one in operand]
        return lambda values: all(test(values) for test in tests)
    if operator == "exists":
        if not isinstance(operand, bool):
            warnings.append(f"filter {field!r}: exists takes true or false, not {operand!r:.40}")
        return lambda values: bool(values.listed) is (operand is not False)
    known = ", ".join((*RANGES, "exists", "not", "contains", "all"))
    warnings.append(f"filter {field!r}: no operator {operator!r}; there are: {known}")
    return _never


def _never(_values: Values) -> bool:
    return False


def choices(wanted: object) -> list[Any]:
    """The values of a condition, any of which is enough."""
    return list(wanted) if isinstance(wanted, list | tuple) else [wanted]


def _equals(wanted: list[Any]) -> _Test:
    plain = frozenset(map(_plain, wanted)) - {None}
    spans = [(one, *span) for one in wanted if (span := period(one)) is not None]
    dates = frozenset(first if first == last else one for one, first, last in spans)
    if not dates:
        return lambda values: not plain.isdisjoint(values.plain)
    return lambda values: not (plain.isdisjoint(values.plain) and dates.isdisjoint(values.dates))


def _contains(wanted: list[Any]) -> _Test:
    parts = [one.casefold() for one in wanted if isinstance(one, str) and "\0" not in one]
    equals = _equals([one for one in wanted if not isinstance(one, str)])

    def contains(values: Values) -> bool:
        folded = values.folded
        return (folded is not None and any(part in folded for part in parts)) or equals(values)

    return contains


def is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


RANGES: dict[str, Callable[[Any, Any], bool]] = {
    "gt": lambda value, bound: value[0] > bound[1],
    "gte": lambda value, bound: value[0] >= bound[0],
    "lt": lambda value, bound: value[1] < bound[0],
    "lte": lambda value, bound: value[1] <= bound[1],
}
"""Both sides are (first, last), inclusive; for a number or a moment both are equal."""


def _range(field: str, operator: str, operand: object, warnings: list[str]) -> _Test:
    holds = RANGES[operator]
    bounds: list[tuple[str, _Span]] = []
    for one in choices(operand) or [operand]:
        known = len(bounds)
        if is_number(one):
            bounds.append(("numbers", (one, one)))
        if (number := numeral(one)) is not None:
            bounds.append(("numerals", (number, number)))
        if (span := period(one)) is not None:
            bounds.append(("moments", span))
        if len(bounds) == known:
            warnings.append(f"filter {field!r}: {operator} takes a number or an ISO 8601 date, not {one!r}")
    return lambda values: any(
        (actual := getattr(values, form)) is not None and holds(actual, bound) for form, bound in bounds
    )


def numeral(value: object) -> int | float | None:
    """The number that a text stands for; None for any other value."""
    match = _NUMERAL.fullmatch(value) if isinstance(value, str) else None
    return None if match is None else float(match[0]) if match[2] else int(match[0])


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


def period(value: object) -> tuple[datetime, datetime] | None:
    """First and last moment of what a condition names: an ISO 8601 date, month or year; None for any other value."""
    if not isinstance(value, str) or not _PERIOD.fullmatch(value):
        return date_span(value)
    if (day := date_span(f"{value}-01-01"[:10])) is None:
        return None
    month = day[0].month if len(value) == 7 else 12
    return day[0], day[1].replace(month=month, day=monthrange(day[0].year, month)[1])
