"""CSV with a header; the separator is the one of comma, semicolon, tab and bar that is most frequent in the header."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Any

from ingest.clean import refuse_binary
from ingest.collection_rows import FIELDS, record_of, with_text
from ingest.raw_documents import Fault, OpenFile, ReadOptions, Record, Unreadable
from models.not_indexed import NotIndexed

SEPARATORS = ",;\t|"

_TEXTS = ("id", "_id", "title", "text", "source_type", "language", "url", "parent")
"""Fields whose cells are always texts: as numbers, the parents 1.1 and 1.10 would be one."""

_INTEGER = re.compile(r"-?(0|[1-9]\d{0,17})")
_TRUTH_VALUES = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_DECIMAL = re.compile(r"-?(0|[1-9]\d{0,17})\.\d{1,18}")


def read(file: OpenFile, options: ReadOptions) -> Iterator[Record | Fault]:
    """Read row by row; a wrong row yields a Fault with the number of its last line.

    Without a column for the text, the text of a row is a line `column: value` for each of its cells.  Raises Unreadable
    if the column that `fields` name for the text is missing.
    """
    refuse_binary(file.peek(4)[:4])
    # Bytes that are not UTF-8 become lone surrogates, so only their row is lost.
    text = io.TextIOWrapper(file, "utf-8-sig", "surrogateescape", newline="")
    lines = _Lines(text, options.max_line_bytes)
    csv.field_size_limit(options.max_line_bytes)
    try:
        if not (first := next(lines, "")).strip():
            return
        rows = csv.reader(chain([first], lines), delimiter=max(SEPARATORS, key=first.count), strict=True)
        cells = next(rows)
    except (csv.Error, _LongRow) as error:
        raise Unreadable(NotIndexed.MALFORMED, f"the header is not CSV: {error}") from None
    header = _header(cells, options)
    if not any(header):
        yield from _record(header, cells, options, lines.number)
    while True:
        lines.characters = 0
        try:
            cells = next(rows)
        except StopIteration:
            return
        except (csv.Error, _LongRow) as error:
            reason = NotIndexed.TOO_LARGE if isinstance(error, _LongRow) else NotIndexed.MALFORMED
            yield Fault(reason, f"not CSV: {error}", lines.number)
            continue
        if any(cell.strip() for cell in cells):
            yield from _record(header, cells, options, lines.number)


class _LongRow(Exception):
    """A quotation mark is probably not closed."""


class _Lines(Iterator[str]):
    """The lines of a row that is not too long: a longer one is never in memory as a whole."""

    def __init__(self, text: io.TextIOWrapper, most: int) -> None:
        self._text, self._most = text, most
        self.number = 0
        self.characters = 0
        """Characters of the row so far; the reader of rows sets this to 0 before each row."""

    def __next__(self) -> str:
        """Raises _LongRow."""
        line = self._text.readline(self._most + 1)
        if not line:
            raise StopIteration
        self.number += 1
        self.characters += len(line)
        if self.characters > self._most:
            while line and not line.endswith(("\n", "\r")):
                line = self._text.readline(self._most)
            raise _LongRow(f"a row has more than {self._most:,} characters; is a quotation mark not closed?")
        return line


def _header(cells: list[str], options: ReadOptions) -> list[str]:
    """The names of the columns, each of them once; without any if the first line is a row, since a number comes first."""
    names = [cell.strip() for cell in cells]
    text_column = options.fields.get("text", "text")
    if "text" in options.fields and text_column not in names:
        columns = ", ".join(repr(name[:40]) for name in names[:10])
        why = f"its first line has no column {text_column!r}; it has: {columns}; map the field `text` to one"
        raise Unreadable(NotIndexed.MALFORMED, why)
    repeated = {name for name, count in Counter(names).items() if name and count > 1}
    if repeated & {options.fields.get(name, name) for name in FIELDS}:
        raise Unreadable(NotIndexed.MALFORMED, "two columns have the same name")
    if not isinstance(_value(next(filter(None, names), "")), str):
        return [""] * len(names)
    so_far = Counter[str]()
    for place, name in enumerate(names):
        so_far[name] += 1
        names[place] = f"{name} {so_far[name]}" if name in repeated else name
    return names


def _record(header: list[str], cells: list[str], options: ReadOptions, line: int) -> Iterator[Record | Fault]:
    # Many programs leave out the empty cells at the end of a row, or add some.  A short row takes no time for the columns that
    # it lacks, which may be a million.
    while len(cells) > len(header) and not cells[-1].strip():
        cells.pop()
    if len(cells) > len(header):
        yield Fault(NotIndexed.MALFORMED, f"{len(cells)} columns, and {len(header)} in the header", line)
    elif any("\ud800" <= character <= "\udfff" for cell in cells for character in cell):
        yield Fault(NotIndexed.NOT_UTF8, "not UTF-8", line)
    else:
        texts = {options.fields.get(name, name) for name in _TEXTS} | {"metadata"}
        named = [(name, cell) for name, cell in zip(header, cells, strict=False) if name]
        row: dict[str, Any] = {name: cell if name in texts else _value(cell) for name, cell in named}
        if (metadata := row.pop("metadata", "").strip()) and not _is_object(metadata):
            yield Fault(NotIndexed.MALFORMED, "metadata: not a JSON object", line)
            return
        row["metadata"] = json.loads(metadata) if metadata else None
        unnamed = [cell for name, cell in zip(header, cells, strict=False) if not name]
        written = {**dict(named), "": unnamed}
        yield from record_of(with_text(row, options.fields, written=written), options.fields, line=line)


def _value(cell: str) -> str | bool | int | float:
    """A number or truth value if the cell is written as one, so that filters can compare it; `007` and `1e3` stay texts."""
    text = cell.strip()
    if text in _TRUTH_VALUES:
        return _TRUTH_VALUES[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else cell


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
