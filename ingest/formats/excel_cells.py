"""What a person sees of a sheet: values in the form that their cells have, merged cells, and what is hidden."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import IO, Any, NamedTuple
from xml.parsers import expat

from ingest.raw_documents import Unreadable
from models.not_indexed import NotIndexed

_LITERAL = re.compile(r'"([^"]*)"|\\(.)|\[\$([^\]-]*)(?:-[^\]]*)?\]|\[[^\]]*\]|_.|\*.')
"""Texts in quotes, escaped signs, currencies; conditions and colours; the widths of gaps."""
_DIGITS = re.compile(r"[0#?](?:[0#?,. ]*[0#?])?")
_ONLY_ZEROS = re.compile(r"0[0 ()/-]*0")
_MORE_DECIMALS = 2
"""A number is written with this many decimals more than its number format shows."""
_MOST_ROWS, _MOST_COLUMNS = 1_048_576, 16_384
_MOST_CELLS = 5_000_000
_SPARSE, _MOST_SPARSE = 20, 1_000_000
_REFERENCE = re.compile(r"([A-Z]+)(\d+):[A-Z]+(\d+)")


class Cell(NamedTuple):
    text: str = ""
    is_text: bool = True
    """Whether the value of the cell is a text; otherwise the value is a number, a date or a truth value."""


def display_text(value: Any, form: str) -> str:
    """The value as the number format of Excel shows it, with two decimals more."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case int() | float():
            return _number(value, form.partition(";")[0])
        case timedelta():
            return _duration(value, form)
        case datetime():
            return _moment(value, _LITERAL.sub("", form).lower())
    return " ".join(str(value).split())


def _moment(value: datetime, form: str) -> str:
    """The date, the time of day, or both, as the number format has them."""
    has_date, has_time = bool(re.search("[yd]|mmm", form)), bool(re.search("[hs]", form))
    if has_time and not has_date:
        return value.time().isoformat("seconds")
    if value.time() == time() or has_date > has_time:
        return value.date().isoformat()
    return value.isoformat(" ", "seconds")


def _number(value: float, form: str) -> str:
    """The number with its `%`, its leading zeros, and its unit or currency."""
    literals: list[str] = []

    def keep(match: re.Match[str]) -> str:
        literals.append(match[1] or match[2] or match[3] or "")
        return "\0" if literals[-1].strip() else " "

    bare = _LITERAL.sub(keep, form).strip()
    if _ONLY_ZEROS.fullmatch(bare) and value >= 0 and value == int(value):
        digits = iter(f"{int(value):0{bare.count('0')}}")
        extra = "".join(next(digits) for _ in range(len(f"{int(value)}") - bare.count("0")))
        return extra + "".join(next(digits) if sign == "0" else sign for sign in bare)
    plain = f"{value:.15g}" if isinstance(value, float) else str(value)
    decimals = len(re.sub(r"[^0#?]", "", bare.partition(".")[2])) + _MORE_DECIMALS
    if "%" in bare:
        return f"{round(value * 100, decimals):.15g}%"
    if isinstance(value, float) and _DIGITS.search(bare) and not re.search("[/E]", bare):
        plain = f"{round(value, decimals):.15g}"
    digits_of = list(_DIGITS.finditer(bare))
    if len(digits_of) != 1 or bare[digits_of[0].end() :].startswith(",") or "E+" in bare:
        return plain  # fractions, thousands that are not shown, powers of ten
    texts = iter(literal for literal in literals if literal.strip())
    before, after = (
        "".join(next(texts) if sign == "\0" else sign for sign in part if sign in "\0$€£¥ ")
        for part in (bare[: digits_of[0].start()], bare[digits_of[0].end() :])
    )
    return " ".join(f"{'-' if value < 0 else ''}{before}{plain.lstrip('-')}{after}".split())


def _duration(value: timedelta, form: str) -> str:
    """The duration in the largest unit of its format: `[h]:mm` shows 30 hours."""
    seconds = round(abs(value).total_seconds())
    sign = "-" if value < timedelta() else ""
    if "[s" in form:
        return f"{sign}{seconds}"
    if "[m" in form:
        return f"{sign}{seconds // 60}:{seconds % 60:02}"
    rest = f":{seconds % 60:02}" if seconds % 60 or "s" in form else ""
    return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}{rest}"


@dataclass(slots=True)
class Layout:
    """What openpyxl does not say about a sheet that it reads row by row."""

    reads_hidden: bool = False
    hidden_rows: set[int] = field(default_factory=set)
    hidden_columns: set[int] = field(default_factory=set)
    hidden_count: int = 0
    """The number of hidden cells and text boxes with a value."""
    _spans: defaultdict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """First and last row of each merged cell of several rows, by its first column."""
    _open: dict[int, tuple[int, Cell]] = field(default_factory=dict)

    def merged_columns(self, number: int) -> list[int]:
        """The columns that are in a merged cell in this row."""
        if not self._spans:
            return []
        for column, last in self._spans.get(number, ()):
            self._open[column] = last, Cell()
        self._open = {column: (last, cell) for column, (last, cell) in self._open.items() if last >= number}
        return list(self._open)

    def merged(self, number: int, column: int, own: Cell) -> Cell:
        """The value of the merged cell, which is that of its first row."""
        last, cell = self._open[column]
        if (column, last) in self._spans.get(number, ()):
            self._open[column] = last, own
            return own
        return cell

    def read(self, sheet: IO[bytes]) -> int:
        """Take the layout from a sheet's part.  Returns the number of places before the last cell of each row, less 20 for each cell."""
        row = column = sparse = 0

        def start(name: str, attributes: dict[str, str]) -> None:
            nonlocal row, column, sparse
            kind = name.rpartition(":")[2]
            is_hidden = attributes.get("hidden") in ("1", "true") and not self.reads_hidden
            if kind == "row":
                row, column = int(attributes.get("r") or row + 1), 0
                if row > _MOST_ROWS:
                    raise Unreadable(
                        NotIndexed.MALFORMED,
                        f"a sheet has at most {_MOST_ROWS:,} rows, and this one has row {row:,}",
                    )
                if is_hidden:
                    self.hidden_rows.add(row)
            elif kind == "c":
                before, column = column, _column(attributes.get("r", "").rstrip("0123456789")) or column + 1
                sparse += max(column - before, 0) - _SPARSE
            elif kind == "col" and is_hidden:
                last = min(int(attributes["max"]), _MOST_COLUMNS)
                self.hidden_columns.update(range(int(attributes["min"]), last + 1))
            elif kind == "mergeCell" and (ends := _REFERENCE.fullmatch(attributes.get("ref", ""))):
                first, last = int(ends[2]), int(ends[3])
                if first < last:
                    self._spans[first].append((_column(ends[1]), last))

        parser = expat.ParserCreate()
        parser.StartElementHandler = start
        parser.ParseFile(sheet)
        spans = ((first, min(last, row)) for first, each in self._spans.items() for _, last in each)
        refuse_more_than(sum(max(last - first, 0) for first, last in spans))
        return sparse


def refuse_sparse(places: int) -> None:
    """Raises Unreadable if cells stand too far apart: openpyxl makes a cell for each place before the last one of a row."""
    if places > _MOST_SPARSE:
        why = f"its cells stand over more than {_MOST_SPARSE:,} places and {_SPARSE} for each cell"
        raise Unreadable(NotIndexed.OVER_LIMIT, why)


def refuse_more_than(cells: int) -> None:
    """Raises Unreadable for more cells than a sheet may have, with those that merged cells cover."""
    if cells > _MOST_CELLS:
        raise Unreadable(NotIndexed.OVER_LIMIT, f"a sheet has more than {_MOST_CELLS:,} cells")


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number
