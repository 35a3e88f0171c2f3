"""Filters on document fields: `{field: value | [values] | {operator: operand}}`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from chorale_client.errors import safe_repr
from chorale_client.limits import MAX_CONDITIONS, MAX_FILTER_DEPTH, MAX_FILTER_VALUES, MAX_NAME_CHARS

FILTER_OPERATORS = ("gt", "gte", "lt", "lte", "exists", "not", "contains", "all")

_ELSEWHERE = {
    "eq": "a plain value: {field: value}",
    "in": "a plain list: {field: [values]}",
    "any": "a plain list: {field: [values]}",
    "ne": "{field: {not: value}}",
    "neq": "{field: {not: value}}",
    "nin": "{field: {not: [values]}}",
    "between": "{field: {gte: lowest, lte: highest}}",
    **{name: f"{{field: {{{name}: bound}}}}" for name in ("gt", "gte", "lt", "lte")},
    "exists": "{field: {exists: true}}",
    "contains": "{field: {contains: text}}",
    **dict.fromkeys(("like", "ilike", "regex", "text_match"), "{field: {contains: text}}"),
    "all": "{field: {all: [conditions]}}",
    "not": "{field: {not: condition}}",
    "nor": "{field: {not: condition}} for each field",
    "and": "one object with all fields, and {field: {all: [conditions]}} for several conditions on one field",
    "must": "one object with all fields, and {field: {all: [conditions]}} for several conditions on one field",
    "or": "{field: [values]} on one field; alternatives on different fields take a request each",
    "should": "{field: [values]} on one field; alternatives on different fields take a request each",
    "elemmatch": "{list.name: condition}",
}
"""Our form of the operators of other systems (Pinecone, MongoDB, Chroma, Qdrant, Milvus), by their name without `$`."""

_VALUES = "a text, a finite number, true or false"


def is_deeper(value: object, levels: int) -> bool:
    """Whether lists and objects in a JSON value are nested deeper than `levels`; true for an endless value too."""
    inside = [value]
    for _ in range(levels + 1):
        inside = [
            value_
            for outer in inside
            if isinstance(outer, Mapping | list | tuple)
            for value_ in (outer.values() if isinstance(outer, Mapping) else outer)
        ]
    return bool(inside)


def check_filters(value: dict[str, Any]) -> dict[str, Any]:
    """Raises ValueError."""
    for field, condition in value.items():
        if is_deeper(condition, MAX_FILTER_DEPTH):
            raise ValueError(f"filter {safe_repr(field)}: nested deeper than {MAX_FILTER_DEPTH} levels")
    listed = [values for condition in value.values() for values in _conditions(condition)]
    for number, limit, what in (
        (len(listed), MAX_CONDITIONS, "conditions"),
        (sum(listed), MAX_FILTER_VALUES, "values in lists"),
    ):
        if number > limit:
            raise ValueError(f"{number:,} {what}; at most {limit:,} are allowed")
    for field, condition in value.items():
        if (complaint := _complaint_of_field(field) or _complaint(condition)) is not None:
            raise ValueError(f"filter {safe_repr(field)}: {complaint}")
    return value


def count_conditions(filters: Mapping[str, Any]) -> int:
    """The number of conditions, as MAX_CONDITIONS counts them; 0 without filters."""
    return sum(1 for condition in filters.values() for _ in _conditions(condition))


def _conditions(condition: Any) -> Iterator[int]:
    """The number of listed values of each condition, whether or not it is valid."""
    if not isinstance(condition, dict):
        yield len(condition) if isinstance(condition, list) else 0
        return
    for operator, operand in condition.items():
        if operator == "not":
            yield from _conditions(operand)
        elif operator == "all" and isinstance(operand, list):
            for part in operand:
                yield from _conditions(part)
        elif operator == "contains" and isinstance(operand, list):
            yield from [1] * len(operand)
        else:
            yield 0


def _complaint_of_field(field: str) -> str | None:
    if len(field) > MAX_NAME_CHARS:
        return f"a name of {len(field):,} characters; at most {MAX_NAME_CHARS} are allowed"
    if field.startswith("$") and (ours := _ours(field)):
        return f"an operator of another system stands in place of a field; write {ours}"
    return _unsendable(field)


def _ours(operator: str) -> str | None:
    name = operator.removeprefix("$").casefold()
    return None if operator in FILTER_OPERATORS else _ELSEWHERE.get(name)


def _complaint(condition: Any) -> str | None:
    """The fault of a filter's condition; None if it is valid."""
    operators = ", ".join(FILTER_OPERATORS)
    if not isinstance(condition, dict):
        expected = f"takes {_VALUES}, a list of these, or {{{operators}}}"
        return _complaint_of_values(expected, condition)
    unknown = sorted(map(safe_repr, condition.keys() - set(FILTER_OPERATORS)))
    if unknown or not condition:
        ours = dict.fromkeys(ours for name in condition if (ours := _ours(name)))
        advice = "".join(f"; write {one}" for one in ours)
        return f"no operator {', '.join(unknown[:3]) or '(none given)'}; there are: {operators}{advice}"
    return next(filter(None, (_complaint_of(*item) for item in condition.items())), None)


def _complaint_of(operator: str, operand: Any) -> str | None:
    if operator == "not":
        return _complaint(operand)
    if operator == "all":
        if not isinstance(operand, list) or not operand:
            return f"all takes a list of conditions, not {safe_repr(operand)}"
        return next(filter(None, map(_complaint, operand)), None)
    if operator == "contains":
        return _complaint_of_values(f"contains takes {_VALUES}, or a list of these", operand)
    if operator == "exists":
        return None if isinstance(operand, bool) else f"exists takes true or false, not {safe_repr(operand)}"
    if isinstance(operand, bool | list):
        return f"{operator} takes a finite number or an ISO 8601 date, not {safe_repr(operand)}"
    return _complaint_of_values(f"{operator} takes a finite number or an ISO 8601 date", operand)


def _complaint_of_values(expected: str, operand: Any) -> str | None:
    for value in operand if isinstance(operand, list) else [operand]:
        if isinstance(value, str):
            if (complaint := _unsendable(value)) is not None:
                return complaint
        elif not (isinstance(value, int | float) and _is_finite(value)):
            return f"{expected}, not {safe_repr(value)}"
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
        return f"invalid Unicode in {safe_repr(text)}: lone surrogate"
    return None
