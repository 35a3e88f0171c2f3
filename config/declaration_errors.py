"""Finds the line of a table or key in a TOML text, for error messages: `tomllib` keeps no positions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

_PART = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*\[\[?\s*({_DOTTED})\s*\]")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=")


def line_of(text: str, path: tuple[str, ...]) -> int:
    """The line, from 1, of the key or table at `path`, else of the nearest table around it, else 1.

    The text is not parsed: a line of a multi-line string that looks like a key counts as a key.
    """
    nearest, depth = 1, 0
    for number, keys in _paths(text):
        if depth < len(keys) <= len(path) and path[: len(keys)] == keys:
            nearest, depth = number, len(keys)
    return nearest


def _paths(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _parts(header[1])
            yield number, table
        elif key := _KEY.match(line):
            yield number, table + _parts(key[1])


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_PART, dotted))


Place = tuple[str, ...]

_WANTED = "Input should be "


def complaints(error: ValidationError, table: Mapping[str, Any]) -> Iterator[tuple[Place, str, str]]:
    """Place, kind of error and message of each error.

    For a field with alternative types pydantic reports an error for each type, with the type in the place; these are
    merged into one.
    """
    messages_at: dict[Place, list[tuple[str, str]]] = {}
    for fault in error.errors(include_url=False, include_input=False):
        place = _place(fault["loc"], table, missing=fault["type"] in ("missing", "extra_forbidden"))
        messages_at.setdefault(place, []).append((fault["type"], fault["msg"].removeprefix("Value error, ")))
    for place, messages in messages_at.items():
        inside = any(other[: len(place)] == place for other in messages_at if len(other) > len(place))
        apt = [(kind, text) for kind, text in messages if not kind.endswith("_type")]
        if apt:
            yield from ((place, kind, text) for kind, text in apt)
        elif not inside:
            texts = [text.removeprefix(_WANTED) for _, text in messages]
            yield place, messages[0][0], _WANTED + " or ".join(texts) if len(texts) > 1 else messages[0][1]


def _place(loc: tuple[int | str, ...], table: Any, *, missing: bool) -> Place:
    """Only the parts of `loc` that are keys or positions in the table; the others are names of types."""
    place: list[str] = []
    for part in loc:
        is_in = (
            part in table if isinstance(table, Mapping) else isinstance(table, list) and isinstance(part, int)
        )
        if is_in or (missing and part == loc[-1]):
            place.append(str(part))
        if is_in:
            table = table[part]
    return tuple(place)
