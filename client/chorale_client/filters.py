"""Filters on document fields: `{field: value | [values] | {operator: operand}}`."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

FILTER_OPERATORS = ("gt", "gte", "lt", "lte", "exists", "not", "contains")
MAX_FILTER_DEPTH = 8

_VALUES = "a text, a finite number, true or false"


def is_deeper(value: object, levels: int) -> bool:
    """Whether lists and objects in a JSON value are nested deeper than `levels`; true for an endless value too."""
    inside = [value]
    for _ in range(levels + 1):
        inside = [
            one
            for outer in inside
            if isinstance(outer, Mapping | list | tuple)
            for one in (outer.values() if isinstance(outer, Mapping) else outer)
        ]
    return bool(inside)


def check_filters(value: dict[str, Any]) -> dict[str, Any]:
    for field, condition in value.items():
        if is_deeper(condition, MAX_FILTER_DEPTH):
            raise ValueError(f"filter {field!r}: nested deeper than {MAX_FILTER_DEPTH} levels")
        if (complaint := _complaint(condition) or _unsendable(field)) is not None:
            raise ValueError(f"filter {field!r}: {complaint}")
    return value


def _complaint(condition: Any) -> str | None:
    """The fault of a filter's condition; None if it is valid."""
    operators = ", ".join(FILTER_OPERATORS)
    if not isinstance(condition, dict):
        wanted = f"takes {_VALUES}, a list of these, or {{{operators}}}"
        return _complaint_of_values(wanted, condition)
    unknown = sorted(map(repr, condition.keys() - set(FILTER_OPERATORS)))
    if unknown or not condition:
        return f"no operator {', '.join(unknown) or '(none given)'}; there are: {operators}"
    return next(filter(None, (_complaint_of(*one) for one in condition.items())), None)


def _complaint_of(operator: str, operand: Any) -> str | None:
    if operator == "not":
        return _complaint(operand)
    if operator == "contains":
        return _complaint_of_values(f"contains takes {_VALUES}, or a list of these", operand)
    if operator == "exists":
        return None if isinstance(operand, bool) else f"exists takes true or false, not {_shown(operand)}"
    if isinstance(operand, bool | list):
        return f"{operator} takes a finite number or an ISO 8601 date, not {_shown(operand)}"
    return _complaint_of_values(f"{operator} takes a finite number or an ISO 8601 date", operand)


def _complaint_of_values(wanted: str, given: Any) -> str | None:
    for value in given if isinstance(given, list) else [given]:
        if isinstance(value, str):
            if (complaint := _unsendable(value)) is not None:
                return complaint
        elif not (isinstance(value, int | float) and _is_finite(value)):
            return f"{wanted}, not {_shown(value)}"
    return None


def _is_finite(value: float) -> bool:
    try:
        return isfinite(value)
    except OverflowError:
        return False


def _unsendable(text: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"half a character in {_shown(text)} (surrogates not allowed)"
    return None


def _shown(value: Any) -> str:
    return f"{value!r:.40}"
