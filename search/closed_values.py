"""Fields whose values are a closed list: a value outside the list, in a filter or in a document, is an error that lists them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from chorale_client.errors import safe_repr

from search.filter_meanings import meanings
from search.filters import choices, composed, elements

ClosedValues: TypeAlias = Mapping[str, Sequence[str]]
"""The allowed values by field."""


def wrong_filter(filters: Mapping[str, Any], closed: ClosedValues) -> str | None:
    """The complaint about the first wrong value with which a filter compares; None if there is none."""
    by_field = {composed(field): condition for field, condition in filters.items()}
    values_by_field = {
        field: _compared(by_field[name]) for field in closed if (name := composed(field)) in by_field
    }
    return _complaint("filters", values_by_field, closed)


def wrong_metadata(metadata: Mapping[str, Any], closed: ClosedValues) -> str | None:
    """The complaint about the first wrong value of a document; None if there is none.  A document without the field has none."""
    fields = composed(metadata)
    return _complaint("metadata", {field: elements(fields, composed(field)) for field in closed}, closed)


def _complaint(where: str, values_by_field: Mapping[str, Iterable[Any]], closed: ClosedValues) -> str | None:
    for field, values in values_by_field.items():
        allowed = composed(closed[field])
        for value in values:
            if not any(same in allowed for same in meanings(composed(value))):
                return f"{where}.{field}: no {safe_repr(value)}; there are: {', '.join(closed[field])}"
    return None


def _compared(condition: Any) -> Iterator[Any]:
    if not isinstance(condition, Mapping):
        yield from choices(condition)
        return
    for operator, operand in condition.items():
        if operator == "not":
            yield from _compared(operand)
        elif operator == "all":
            for part in operand:
                yield from _compared(part)
