"""Excel files (.xlsx) with openpyxl, an optional extra: a section for each sheet, and a line for each row."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, time
from itertools import zip_longest
from typing import Any

from ingest.office import blocks_as_text, package_of, row
from ingest.raw_documents import Fault, OpenFile, ReadOptions, Record, missing_package


def read(file: OpenFile, options: ReadOptions) -> Iterator[Record | Fault]:
    """The values of cells as they were saved; a formula that no program has computed has none."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise missing_package("openpyxl", "Excel", "office") from None
    package = package_of(file, options)
    workbook = load_workbook(package.content, read_only=True, data_only=True)
    sections: list[str] = []
    for sheet in workbook.worksheets:
        sheet.reset_dimensions()  # the declared size may be a billion empty cells
        if rows := "\n".join(_rows(sheet.iter_rows(values_only=True))):
            sections += [f"## {' '.join(sheet.title.split())}", rows]
    yield from package.faults
    yield Record(blocks_as_text(sections), package.title, package.metadata, "markdown")


def _rows(rows: Iterator[tuple[Any, ...]]) -> Iterator[str]:
    """Up to an empty row, cells have the names of their columns: the first row of several cells, if all are different texts."""
    names: list[str] | None = None
    for values in rows:
        cells = [_shown(value) for value in values]
        if line := row(_with_names(cells, names) if names else cells):
            yield line
        filled = [value for value in values if value not in (None, "")]
        if names is None and len(filled) > 1:
            is_header = all(isinstance(value, str) for value in filled) and len({*filled}) == len(filled)
            names = cells if is_header else []
        elif names and not line:
            names = []


def _with_names(cells: list[str], names: list[str]) -> list[str]:
    pairs = zip_longest(cells, names, fillvalue="")
    return [f"{name}: {cell}" if name else cell for cell, name in pairs if cell]


def _shown(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case float():
            return f"{value:.15g}"
        case datetime() if value.time() == time():
            return value.date().isoformat()
        case datetime():
            return value.isoformat(" ", "seconds")
    return " ".join(str(value).split())
