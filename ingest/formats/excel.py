"""Excel files (.xlsx) with openpyxl, an optional extra: a section for each sheet, and a line for each row."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, takewhile, zip_longest
from typing import Any

from ingest.formats.excel_cells import Cell, Layout, display_text, refuse_more_than, refuse_sparse
from ingest.formats.office_drawings import texts_of_shapes
from ingest.office import SheetParts, blocks_as_text, package_of, row
from ingest.raw_documents import Fault, OpenFile, ReadOptions, Record, missing_package
from models.not_indexed import NotIndexed

_ROWS_AHEAD = 10
"""Names of columns may stand this many rows below the first row of a sheet's notes."""


def read(file: OpenFile, options: ReadOptions) -> Iterator[Record | Fault]:
    """The values of cells as they were saved; a formula that no program has computed has none."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise missing_package("openpyxl", "Excel", "office") from None
    package = package_of(file, options)
    parts = SheetParts(package.content)
    workbook = load_workbook(parts.content, read_only=True, data_only=True)
    sections: list[str] = []
    hidden: list[str] = []
    sparse = 0
    for sheet in workbook.worksheets:
        sheet.reset_dimensions()  # the declared size may be a billion empty cells
        title = " ".join(sheet.title.split())
        is_hidden = sheet.sheet_state != "visible" and not options.hidden_text
        layout = Layout(reads_hidden=options.hidden_text)
        with parts.open(sheet.title) as part:
            sparse += max(layout.read(part), 0)
        refuse_sparse(sparse)
        blocks = ["\n".join(_lines(_cells(sheet.iter_rows(), layout)))]
        for drawing, part_of in parts.drawings(sheet.title):
            for text, is_unseen in texts_of_shapes(drawing, part_of):
                if is_unseen and not options.hidden_text:
                    layout.hidden_count += bool(text)
                else:
                    blocks.append(text)
        if any(blocks) and is_hidden:
            hidden.append(f"the sheet {title!r}")
        elif any(blocks):
            sections += [f"## {title}", *blocks]
            hidden += [f"{layout.hidden_count} cells or boxes in {title!r}"] if layout.hidden_count else []
    yield from package.faults
    if hidden:
        yield Fault(NotIndexed.HIDDEN_TEXT, f"hidden: {', '.join(hidden)}; --hidden-text reads it")
    yield Record(blocks_as_text(sections), package.title, package.metadata, "markdown")


def _cells(rows: Iterable[tuple[Any, ...]], layout: Layout) -> Iterator[list[Cell]]:
    """The visible cells.  A cell that was merged over several rows is in each of these rows."""
    count = empty = 0
    for number, cells in enumerate(rows, start=1):
        merged = layout.merged_columns(number)
        empty = 0 if cells or merged else empty + 1
        if empty > _ROWS_AHEAD:
            continue  # openpyxl fills the gap between two rows, which may have a million
        count += len(cells) + len(merged)
        refuse_more_than(count)
        values = [
            Cell(display_text(cell.value, cell.number_format), isinstance(cell.value, str)) for cell in cells
        ]
        for column in merged:
            values += [Cell()] * (column - len(values))
            values[column - 1] = layout.merged(number, column, values[column - 1])
        if number in layout.hidden_rows:
            layout.hidden_count += sum(bool(cell.text) for cell in values)
            continue
        for column, cell in enumerate(values, start=1):
            if cell.text and column in layout.hidden_columns:
                layout.hidden_count += 1
                values[column - 1] = Cell()
        yield values


def _lines(rows: Iterator[list[Cell]]) -> Iterator[str]:
    """Up to the next empty row, each cell has the name of its column.

    The first row that can be a row of names gives the names; below an empty row, it must stand above numbers or dates.
    """
    names: list[str] | None = None
    above: list[Cell] = []
    is_used = is_below = False
    for cells, *ahead in _with_following(rows):
        texts = [cell.text for cell in cells]
        line = row(_with_names(texts, names or []))
        if not line:
            # An empty row may stand between the names and the first row, or between notes and the names.
            next_row = next((one for one in ahead if _filled(one)), [])
            if is_used or not names or _are_names(next_row, []):
                is_below = is_below or is_used
                names, is_used = None, False
        elif names is not None:
            is_used = True
        elif not _is_title(cells, ahead):
            candidates = (cells, _below(above, cells))
            header = next((one for one in candidates if _are_names(one, ahead[0])), None)
            if header and (not is_below or _has_values(ahead[0])):
                names = [cell.text for cell in header]
            elif len([*filter(None, texts)]) > 1:
                names, is_used = [], True
        if line:
            yield line
        above = cells


def _with_following(rows: Iterator[list[Cell]]) -> Iterator[list[list[Cell]]]:
    """Each row with those below it, and with an empty one after the last."""
    window = deque[list[Cell]]()
    for each in chain(rows, [[]]):
        window.append(each)
        if len(window) > _ROWS_AHEAD:
            yield [*window]
            window.popleft()
    while len(window) > 1:
        yield [*window]
        window.popleft()


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


def _is_title(cells: list[Cell], ahead: list[list[Cell]]) -> bool:
    """Whether the row stands above a table, and not in it.

    The row below has more columns, and twice as many or their names; or the row has gaps, and a row of names without gaps
    follows after other texts.
    """
    own, after, below = _width(cells), ahead[0], _width(ahead[0])
    if own < below and (
        (2 * own <= below and _filled(cells) < 3)
        or any(_are_names(names, []) for names in (after, _below(cells, after)))
    ):
        return True
    texts = takewhile(lambda one: _filled(one) and not _has_values(one), [cells, *ahead])
    return _filled(cells) < own and any(
        own <= _width(one) == _filled(one) and _are_names(one, values) and _has_values(values)
        for one, values in zip([*texts][1:], ahead[1:], strict=False)
    )


def _has_values(cells: list[Cell]) -> bool:
    return any(cell.text and not cell.is_text for cell in cells)


def _filled(cells: list[Cell]) -> int:
    return sum(bool(cell.text) for cell in cells)


def _width(cells: list[Cell]) -> int:
    return max((number for number, cell in enumerate(cells, start=1) if cell.text), default=0)


def _is_year(cell: Cell) -> bool:
    return not cell.is_text and cell.text.isdigit() and 1900 <= int(cell.text) <= 2100


def _with_names(cells: list[str], names: list[str]) -> list[str]:
    pairs = zip_longest(cells, names, fillvalue="")
    return [f"{name}: {cell}" if name else cell for cell, name in pairs if cell]
