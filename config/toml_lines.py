"""Finds the line of a table or key in a TOML text, for error messages: `tomllib` keeps no positions."""

from __future__ import annotations

import re
from collections.abc import Iterator

_PART = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*\[\[?\s*({_DOTTED})\s*\]")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=")


def line_of(text: str, path: tuple[str, ...]) -> int:
    """The line, from 1, of the key or table at `path`, else of the nearest table around it, else 1.

    The text is not parsed: a line of a multi-line string that looks like a key counts as a key.
    """
    nearest, depth = 1, 0
    for number, found in _paths(text):
        if depth < len(found) <= len(path) and path[: len(found)] == found:
            nearest, depth = number, len(found)
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
