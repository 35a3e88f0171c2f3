"""Excel files, made by the library that reads them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from openpyxl.chart import BarChart, Reference
from openpyxl.utils import get_column_letter

from ingest.formats import excel
from ingest.formats.excel_cells import Cell, Layout, display_text
from ingest.raw_documents import ReadOptions, Record
from models.not_indexed import NotIndexed
from tests.support.office_files import filled, with_part, workbook
from tests.support.reading import document_of, skipped, with_note

SHEET = "xl/worksheets/sheet1.xml"


def test_a_row_of_a_sheet_has_the_names_of_its_columns_up_to_an_empty_row(tmp_path: Path) -> None:
    path = workbook(
        tmp_path / "a.xlsx",
        ["Staff of 2024"],
        ["Name", "Born", "Share", "Here"],
        ["Ann", date(1999, 1, 2), 0.1 + 0.2, True],
        ["Bob", None, 5.0, datetime(2020, 1, 1, 12, 5, tzinfo=UTC).replace(tzinfo=None)],
        [],
        ["Sum", 5.3],
    )
    assert document_of(path).text == (
        "## Sheet\n\nStaff of 2024\nName | Born | Share | Here\n"
        "Name: Ann | Born: 1999-01-02 | Share: 0.3 | Here: true\n"
        "Name: Bob | Share: 5 | Here: 2020-01-01 12:05:00\nSum | 5.3"
    )


def changed_sheet(folder: Path, before: str, after: str) -> Path:
    """A workbook with one cell, whose sheet has another text in the place of `before`."""
    path = workbook(folder / "a.xlsx", ["Ann"])
    with zipfile.ZipFile(path) as archive:
        sheet = archive.read(SHEET).decode()
    assert before in sheet
    return with_part(path, SHEET, sheet.replace(before, after).encode())


def test_a_sheet_that_claims_a_billion_cells_is_read_by_those_that_it_has(tmp_path: Path) -> None:
    claims = changed_sheet(tmp_path, '<dimension ref="A1:A1"', '<dimension ref="A1:XFD1048576"')
    assert document_of(claims).text == "## Sheet\n\nAnn"


def test_a_row_that_no_sheet_has_is_refused_before_it_is_walked(tmp_path: Path) -> None:
    far = changed_sheet(tmp_path, '<row r="1"', '<row r="900000000"')
    assert "a sheet has at most 1,048,576 rows, and this one has row 900,000,000" in skipped(far).why


def test_of_a_gap_of_a_million_rows_a_few_are_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walked = 0
    cells_of = excel._cells

    def counted(rows: Iterable[tuple[Any, ...]], layout: Layout) -> Iterator[list[Cell]]:
        nonlocal walked
        for cells in cells_of(rows, layout):
            walked += 1
            yield cells

    monkeypatch.setattr(excel, "_cells", counted)
    last = '<row r="1048576"><c r="A1048576"><v>5</v></c></row></sheetData>'
    far = changed_sheet(tmp_path, "</sheetData>", last)
    file = io.BufferedReader(io.BytesIO(far.read_bytes()))
    *_, record = excel.read(file, ReadOptions({}, 1_000_000, 1_000_000))
    assert isinstance(record, Record)
    assert (record.text, walked) == ("## Sheet\n\nAnn\n5", 12)


def test_cells_that_stand_over_millions_of_places_are_refused_before_they_are_walked(tmp_path: Path) -> None:
    def far(rows: int) -> Path:
        cells = "".join(
            f'<row r="{number}"><c r="XFD{number}"><v>5</v></c></row>' for number in range(2, rows + 2)
        )
        return changed_sheet(tmp_path, "</sheetData>", f"{cells}</sheetData>")

    assert document_of(far(2)).text == "## Sheet\n\nAnn\n5\n5"
    why = "its cells stand over more than 1,000,000 places and 20 for each cell"
    assert skipped(far(70)).why == why


@pytest.mark.slow
def test_merged_cells_without_end_are_walked_to_the_limit_of_a_sheet(tmp_path: Path) -> None:
    columns = [get_column_letter(number) for number in range(1, 1001)]
    merged = "".join(f'<mergeCell ref="{name}1:{name}1048576"/>' for name in columns)
    end = f'<row r="1048576"></row></sheetData><mergeCells>{merged}</mergeCells>'
    assert (
        "a sheet has more than 5,000,000 cells" in skipped(changed_sheet(tmp_path, "</sheetData>", end)).why
    )


_EVENING = datetime.fromisoformat("1992-12-28T18:15")


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (0.15, "0%", "15%"),
        (0.0725, "0.00%", "7.25%"),
        (0.00370900364, "0.00%", "0.3709%"),
        (84219.4973106866, '"$"#,##0.00', "$84219.4973"),
        (42, "00000", "00042"),
        (123456, "00000", "123456"),
        (78051120, "000-00-0000", "078-05-1120"),
        (1234.5, '"$"#,##0.00', "$1234.5"),
        (-3.5, "[$€-407] #,##0.00", "-€ 3.5"),
        (12, "#,##0 [$€-1]", "12 €"),
        (5, '0.0" kg"', "5 kg"),
        (7, '_("$"* #,##0.00_);_("$"* (#,##0.00)', "$ 7"),
        (12_500_000, '0.0,,"M"', "12500000"),
        (0.5, "# ?/?", "0.5"),
        (1234.0, "General", "1234"),
        (1.5, "0.00", "1.5"),
        (84219.4973106866, '"$"#,##0', "$84219.5"),
        (0.00000015, "0.00E+00", "1.5e-07"),
        (0.125, "# ?/?", "0.125"),
        (_EVENING, "h:mm AM/PM", "18:15:00"),
        (_EVENING, "d-mmm-yy", "1992-12-28"),
        (_EVENING, '"at" h:mm, d mmmm', "1992-12-28 18:15:00"),
        (timedelta(hours=30, minutes=15), "[h]:mm", "30:15"),
        (timedelta(minutes=90, seconds=5), "[h]:mm:ss", "1:30:05"),
        (timedelta(minutes=90, seconds=5), "[mm]:ss", "90:05"),
        (timedelta(minutes=-90), "[h]:mm", "-1:30"),
        (time(9, 5), "h:mm", "09:05:00"),
    ],
)
def test_a_cell_reads_as_its_number_format_shows_it(value: object, form: str, text: str) -> None:
    assert display_text(value, form) == text


def test_the_formats_of_cells_are_those_of_the_file(tmp_path: Path) -> None:
    book, sheet = filled(["Loan", 0.0725, 42])
    sheet["B1"].number_format, sheet["C1"].number_format = "0.00%", "00000"
    book.save(tmp_path / "a.xlsx")
    assert document_of(tmp_path / "a.xlsx").text == "## Sheet\n\nLoan | 7.25% | 00042"


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        (
            [
                ["Lists", "", "", "notes"],
                ["made", "by", "", "Ann"],
                ["City", "Boats", "Ships", "Piers"],
                ["Rome", 1, 2, 3],
            ],
            ["Lists | notes", "made | by | Ann", "City: Rome | Boats: 1 | Ships: 2 | Piers: 3"],
        ),
        (
            [["Notes", "by Ann"], [], ["City", "Boats"], ["Rome", 1]],
            ["Notes | by Ann", "City: Rome | Boats: 1"],
        ),
        (
            [["City", "Boats"], [], ["Rome", 1], ["Oslo", 2]],
            ["City: Rome | Boats: 1", "City: Oslo | Boats: 2"],
        ),
        (
            [["City", "Boats"], ["Rome", 1], [], ["Name", "Age"], ["Ann", 3]],
            ["City: Rome | Boats: 1", "Name: Ann | Age: 3"],
        ),
        (
            [["City", "Land"], ["Rome", "Italy"], [], ["Oslo", "Norway"], ["Bonn", "Germany"]],
            ["Oslo | Norway"],
        ),
        (
            [["a", "b", "c"], [1, 2, 3, None, "Sum of a", "Sum of b", "Sum of c"]],
            ["a: 1 | b: 2 | c: 3 | Sum of a | Sum of b | Sum of c"],
        ),
        (
            [["MODEL-000", "Output"], ["City", 2016, 2017], ["Rome", 1, 2]],
            ["MODEL-000 | Output", "City | 2016 | 2017", "City: Rome | 2016: 1 | 2017: 2"],
        ),
        (
            [["", "2023", "", "2024", ""], ["City", "Q1", "Q2", "Q1", "Q2"], ["Rome", 1, 2, 3, 4]],
            ["City: Rome | 2023 Q1: 1 | 2023 Q2: 2 | 2024 Q1: 3 | 2024 Q2: 4"],
        ),
        (
            [["City", "Boats"], ["Rome", 1, "*"], ["Oslo", 3]],
            ["City | Boats", "City: Rome | Boats: 1 | *", "City: Oslo | Boats: 3"],
        ),
        ([["Ann", 1], ["Bob", 2]], ["Ann | 1", "Bob | 2"]),
        ([["Ann", 1999], ["Bob", 2001]], ["Ann | 1999", "Bob | 2001"]),
    ],
    ids=[
        "notes above",
        "notes and a gap",
        "a gap below",
        "a second table",
        "a second group",
        "a wider row below",
        "a title names no columns",
        "names in two rows",
        "a column without a name",
        "no names",
        "years are values where years are below",
    ],
)
def test_names_of_columns_are_found_where_a_person_finds_them(
    tmp_path: Path, rows: list[list[object]], lines: list[str]
) -> None:
    assert {*lines} <= {*document_of(workbook(tmp_path / "a.xlsx", *rows)).text.splitlines()}


def test_a_merged_cell_is_in_each_of_its_rows(tmp_path: Path) -> None:
    book, sheet = filled(["Team", "Name"], ["North", "Ana"], [None, "Ben"], ["South", "Cem"])
    sheet.merge_cells("A2:A3")
    book.save(tmp_path / "a.xlsx")
    assert document_of(tmp_path / "a.xlsx").text == (
        "## Sheet\n\nTeam | Name\nTeam: North | Name: Ana\nTeam: North | Name: Ben\nTeam: South | Name: Cem"
    )


def test_text_boxes_and_titles_of_charts_stand_below_the_rows_of_their_sheet(tmp_path: Path) -> None:
    book, sheet = filled(["Boats", 3])
    chart = BarChart()
    chart.title = "Boats in harbours"
    chart.add_data(Reference(sheet, min_col=2, min_row=1))
    sheet.add_chart(chart)
    book.save(path := tmp_path / "a.xlsx")
    with zipfile.ZipFile(path) as archive:
        drawing = archive.read("xl/drawings/drawing1.xml").decode()
    boxes = "".join(
        f'<twoCellAnchor><sp><nvSpPr><cNvPr id="9" name="b"{hidden}/></nvSpPr><txBody><a:p xmlns:a="{_DRAWING}"><a:r>'
        f"<a:t>{text}</a:t></a:r></a:p></txBody></sp></twoCellAnchor>"
        for text, hidden in (("In the box", ""), ("Unseen", ' hidden="1"'))
    )
    with_part(path, "xl/drawings/drawing1.xml", drawing.replace("</wsDr>", f"{boxes}</wsDr>").encode())
    read, note = with_note(path)
    assert read.text == "## Sheet\n\nBoats | 3\n\nBoats in harbours\n\nIn the box"
    assert note.why == "hidden: 1 cells or boxes in 'Sheet'; --hidden-text reads it"


_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"


def test_hidden_sheets_rows_and_columns_are_left_out_unless_somebody_asks_for_them(tmp_path: Path) -> None:
    book, sheet = filled(["a", "b", "c"], ["d", "e", "f"])
    sheet.row_dimensions[2].hidden = sheet.column_dimensions["B"].hidden = True
    for title, state in (("Lists", "hidden"), ("Codes", "veryHidden")):
        other = book.create_sheet(title)
        other.append([title.lower()])
        other.sheet_state = state
    book.save(path := tmp_path / "a.xlsx")
    read, note = with_note(path)
    assert (note.reason, read.text) == (NotIndexed.HIDDEN_TEXT, "## Sheet\n\na | c")
    assert note.why == (
        "hidden: 4 cells or boxes in 'Sheet', the sheet 'Lists', the sheet 'Codes'; --hidden-text reads it"
    )
    assert document_of(path, hidden_text=True).text == (
        "## Sheet\n\na | b | c\na: d | b: e | c: f\n\n## Lists\n\nlists\n\n## Codes\n\ncodes"
    )
