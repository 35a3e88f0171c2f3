"""Excel files (.xlsx) with openpyxl, an optional extra: a section for each sheet, and a line for each row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, zip_longest
from typing import Any

from ingest.formats.excel_cells import Cell, Layout, shown
from ingest.office import blocks_as_text, package_of, row, sheet_parts
from ingest.raw_documents import Fault, OpenFile, ReadOptions, Record, missing_package
from models.not_indexed import NotIndexed


def read(file: OpenFile, options: ReadOptions) -> Iterator[Record | Fault]:
    """The values of cells as they were saved; a formula that no program has computed has none."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise missing_package("openpyxl", "Excel", "office") from None
    package = package_of(file, options)
    workbook = load_workbook(package.content, read_only=True, data_only=True)
    sections: list[str] = []
    hidden: list[str] = []
    parts = sheet_parts(package.content)
    for sheet in workbook.worksheets:
        sheet.reset_dimensions()  # the declared size may be a billion empty cells
        title = " ".join(sheet.title.split())
        is_hidden = sheet.sheet_state != "visible" and not options.hidden_text
        layout = Layout(reads_hidden=options.hidden_text)
        with parts(sheet.title) as part:
            layout.read(part)
        rows = "\n".join(_lines(_cells(sheet.iter_rows(), layout)))
        if rows and is_hidden:
            hidden.append(f"the sheet {title!r}")
        elif rows:
            sections += [f"## {title}", rows]
            hidden += [f"{layout.left_out} cells in {title!r}"] if layout.left_out else []
    yield from package.faults
    if hidden:
        yield Fault(NotIndexed.HIDDEN_TEXT, f"hidden: {', '.join(hidden)}; --hidden-text reads it")
    yield Record(blocks_as_text(sections), package.title, package.metadata, "markdown")


def _cells(rows: Iterable[tuple[Any, ...]], layout: Layout) -> Iterator[list[Cell]]:
    """The visible cells.  A cell that was merged over several rows is in each of these rows."""
    for number, cells in enumerate(rows, start=1):
        values = [Cell(shown(cell.value, cell.number_format), isinstance(cell.value, str)) for cell in cells]
        for column in layout.merged_columns(number):
            values += [Cell()] * (column - len(values))
            values[column - 1] = layout.merged(number, column, values[column - 1])
        if number in layout.hidden_rows:
            layout.left_out += sum(bool(cell.text) for cell in values)
            continue
        for column in layout.hidden_columns:
            if column <= len(values) and values[column - 1].text:
                layout.left_out += 1
                values[column - 1] = Cell()
        yield values


def _lines(rows: Iterator[list[Cell]]) -> Iterator[str]:
    """Up to the next empty row, each cell has the name of its column.  The first row that can be a row of names gives the names."""
    names: list[str] | None = None
    above: list[Cell] = []
    following = chain(rows, [[]])
    cells = next(following)
    for after in following:
        texts = [cell.text for cell in cells]
        line = row(_with_names(texts, names or []))
        if names is None and any(texts) and not _is_title(cells, after):
            if found := next((one for one in (cells, _below(above, cells)) if _are_names(one, after)), None):
                names = [cell.text for cell in found]
            elif len([*filter(None, texts)]) > 1:
                names = []
        elif names and not line:
            names = []
        if line:
            yield line
        above, cells = cells, after


def _are_names(cells: list[Cell], after: list[Cell]) -> bool:
    """Whether the cells are several different texts, some perhaps years that have no years below them."""
    texts = [cell.text for cell in cells if cell.text]
    years = [
        (cell, under)
        for cell, under in zip_longest(cells, after, fillvalue=Cell())
        if cell.text and not cell.is_text
    ]
    return (
        len(texts) > max(1, len(years))
        and len({*texts}) == len(texts)
        and all(_is_year(cell) and not _is_year(under) for cell, under in years)
    )


def _below(above: list[Cell], cells: list[Cell]) -> list[Cell]:
    """Names in two rows: each one of `cells`, below the last one above it or to the left of that."""
    names, group = list[Cell](), ""
    for upper, cell in zip_longest(above, cells, fillvalue=Cell()):
        group = upper.text or group
        names.append(
            cell._replace(text=f"{group} {cell.text}".strip()) if cell.text and group != cell.text else cell
        )
    return names


def _is_title(cells: list[Cell], after: list[Cell]) -> bool:
    """Whether the row stands above a table, and not in it: the row below has more columns, and twice as many or their names."""
    own, below = _width(cells), _width(after)
    return own < below and (
        2 * own <= below or any(_are_names(names, []) for names in (after, _below(cells, after)))
    )


def _width(cells: list[Cell]) -> int:
    return max((number for number, cell in enumerate(cells, start=1) if cell.text), default=0)


def _is_year(cell: Cell) -> bool:
    return not cell.is_text and cell.text.isdigit() and 1900 <= int(cell.text) <= 2100


def _with_names(cells: list[str], names: list[str]) -> list[str]:
    pairs = zip_longest(cells, names, fillvalue="")
    return [f"{name}: {cell}" if name else cell for cell, name in pairs if cell]
