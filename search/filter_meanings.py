"""A request's filters by the meaning of their values: `"2026"` also matches the number 2026, and `true` the text "true".

A caller's form, program or language model often has a value in another type than the documents.  Such a value becomes a list
of all values that mean the same, so that stores compare as ever.  An empty list is no condition.  What a key forces stays as it
is: in the request of a key, the first part of a field's `all` (`records.keys.grant.with_forced_filters`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from chorale_client.tenants import tenant_of

from search.filters import RANGES, Fields, choices, compile_filters, elements, is_number, numeral

if TYPE_CHECKING:
    from chorale_client.request import Request

_TRUTHS = {"true": True, "false": False}
_ANYTHING: dict[str, Any] = {"not": []}
"""What stands in place of a forced condition where a key forces none (`records.keys.grant.with_forced_filters`)."""


def meanings(value: Any) -> list[Any]:
    """The value, and the values of other types that mean the same."""
    if isinstance(value, bool):
        return [value, *(form(str(value)) for form in (str.lower, str, str.upper))]
    if isinstance(value, float) and value.is_integer():
        return [value, str(value), str(int(value))]
    if is_number(value):
        return [value, str(value)]
    other = _value_of(value)
    return [value] if other is None else [value, other]


def _value_of(text: Any) -> int | float | bool | None:
    """The number, or true or false, that a text stands for."""
    if not isinstance(text, str):
        return None
    number = numeral(text)
    return _TRUTHS.get(text.lower()) if number is None else number


def expanded_filters(request: Request) -> dict[str, Any]:
    """What the stores are to compare."""
    expanded: dict[str, Any] = {}
    for field, forced, requested in _conditions(request):
        parts = [*forced, *(one for condition in requested if (one := _expanded(condition)) is not None)]
        if forced:
            expanded[field] = {"all": parts}
        elif parts:
            [expanded[field]] = parts
    return expanded


def requested_filters(request: Request) -> dict[str, Any]:
    """The caller's own conditions as they were given, without those that a key forces and those that are empty."""
    return {
        field: requested[0] if len(requested) == 1 else {"all": requested}
        for field, _, requested in _conditions(request)
        if any(_expanded(condition) is not None for condition in requested)
    }


def forced_filters(request: Request) -> dict[str, Any]:
    """What a key forces, by field."""
    return {
        field: forced[0] for field, forced, _ in _conditions(request) if forced and forced[0] != _ANYTHING
    }


def _conditions(request: Request) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Each field with what a key forces, and what the caller asks."""
    has_key = tenant_of(request.request_id) is not None
    for field, condition in request.filters.items():
        if has_key and isinstance(condition, Mapping) and [*condition] == ["all"]:
            yield field, list(condition["all"][:1]), list(condition["all"][1:])
        else:
            yield field, [], [condition]


def _expanded(condition: Any) -> Any:
    """The condition with every meaning of its values; None if the condition is empty."""
    if not isinstance(condition, Mapping):
        values = [value for one in choices(condition) for value in meanings(one)]
        return condition if len(values) == 1 else values or None
    parts: dict[str, Any] = {}
    for operator, operand in condition.items():
        if operator in RANGES:
            expanded = _bounds(operand)
        elif operator == "all":
            expanded = [one for part in operand if (one := _expanded(part)) is not None] or None
        else:
            expanded = operand if operator == "exists" else _expanded(operand)
        if expanded is not None:
            parts[operator] = expanded
    return parts or None


def _bounds(bound: Any) -> Any:
    """A number also as a numeral, with which numbers that documents hold as texts are compared."""
    number = bound if is_number(bound) else numeral(bound)
    if number is None:
        return bound
    text = f"{Decimal(str(number)):f}"
    return [number, text] if numeral(text) is not None else number


def type_warnings(requested: Mapping[str, Any], documents: Sequence[Fields]) -> tuple[str, ...]:
    """A warning for each field of whose values some document has another type than the caller; `documents` were found."""
    return tuple(
        f"filter {field!r}: the request has {value!r:.80}, {_kind(value)}, and documents have {stored!r:.80}, "
        f"{_kind(stored)}: they are compared by their meaning"
        for field, condition in requested.items()
        if (pair := _differing_pair(field, condition, documents)) is not None
        for value, stored in [pair]
    )


def _differing_pair(field: str, condition: Any, documents: Sequence[Fields]) -> tuple[Any, Any] | None:
    """A value of the caller and a document's value of another type, if the two were compared."""
    requested = list(_values(condition))
    stored = [value for fields in documents for value in elements(fields, field) if _kind(value)]
    if not requested or not stored:
        return None
    kinds = set(map(_kind, requested))
    if kinds.isdisjoint(map(_kind, stored)):
        return requested[0], stored[0]
    exact, by_meaning = compile_filters({field: condition}), compile_filters({field: _expanded(condition)})
    for fields in documents:
        if by_meaning.matches(fields) and not exact.matches(fields):
            value = next((one for one in elements(fields, field) if _kind(one) not in kinds), None)
            return None if value is None else (requested[0], value)
    return None


def _values(condition: Any) -> Iterator[Any]:
    """The values that are compared with those of documents."""
    if not isinstance(condition, Mapping):
        yield from choices(condition)
        return
    for operator, operand in condition.items():
        if operator == "all":
            for part in operand:
                yield from _values(part)
        elif operator != "exists":
            yield from _values(operand)


def _kind(value: Any) -> str:
    """The type of the value, as warnings name it; empty for a list, an object or null."""
    if isinstance(value, bool):
        return "true or false"
    return "a number" if is_number(value) else "a text" if isinstance(value, str) else ""
