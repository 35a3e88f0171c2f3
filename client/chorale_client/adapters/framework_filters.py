"""Filters of other frameworks as filters of a request: conditions of which all must hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from chorale_client.errors import InvalidRequest, display_name, safe_repr

Condition = tuple[str, Any]
"""A field, and what a request's `filters` take for it."""

_OPERATORS: Mapping[str, Callable[[Any], Any]] = {
    "==": lambda value: {"exists": False} if value is None else value,
    "!=": lambda value: {"exists": True} if value is None else {"not": value},
    ">": lambda value: {"gt": value},
    ">=": lambda value: {"gte": value},
    "<": lambda value: {"lt": value},
    "<=": lambda value: {"lte": value},
    "in": list,
    "not in": lambda value: {"not": list(value)},
    # LlamaIndex's names
    "nin": lambda value: {"not": list(value)},
    "any": list,
    "all": lambda value: {"all": list(value)},
    "contains": lambda value: {"contains": value},
    "text_match_insensitive": lambda value: {"contains": value},
    "is_empty": lambda value: {"exists": False},
}
_OF_SEVERAL = ("in", "not in", "nin", "any", "all")
"""Operators that take a list.  A text would count as the list of its letters."""


def condition(field: str, operator: str, value: Any) -> Condition:
    """One comparison.  Raises InvalidRequest for an unknown operator, and for a single value where a list is needed."""
    if operator not in _OPERATORS:
        raise InvalidRequest(
            f"filters: no operator {safe_repr(operator)}; there are: {', '.join(_OPERATORS)}"
        )
    if operator in _OF_SEVERAL and (isinstance(value, str | Mapping) or not isinstance(value, Iterable)):
        raise InvalidRequest(f"filters: {safe_repr(operator)} takes a list of values, not {safe_repr(value)}")
    return field, _OPERATORS[operator](value)


def all_of(conditions: Iterable[Condition]) -> dict[str, Any]:
    """All conditions as a request's `filters`."""
    by_field: dict[str, list[Any]] = {}
    for field, condition in conditions:
        by_field.setdefault(field, []).append(condition)
    return {field: {"all": parts} if len(parts) > 1 else parts[0] for field, parts in by_field.items()}


def negated(conditions: Iterable[Condition]) -> Condition:
    """Raises InvalidRequest unless it is the negation of one field's condition."""
    joined = all_of(conditions)
    if len(joined) != 1:
        raise InvalidRequest(
            f"filters: NOT takes conditions on one field, not on {', '.join(list(map(display_name, joined))[:3]) or 'none'}"
        )
    ((field, condition),) = joined.items()
    return field, {"not": condition}


def refused(operator: str) -> InvalidRequest:
    """The error for a logical operator that a request cannot express."""
    return InvalidRequest(
        f"filters: {operator} cannot be expressed; all conditions of a request must hold, and `in` takes several values"
    )
