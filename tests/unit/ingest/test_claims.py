"""Files of a few kilobytes that claim much are refused before they are walked, and their parser leaves no file behind."""

from __future__ import annotations

import io
import re
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from docx import Document
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from openpyxl import Workbook, load_workbook
from pptx import Presentation

from ingest.formats import csv_rows, html, html_visibility, markdown, pdf, powerpoint
from ingest.office import SheetParts
from ingest.raw_documents import ReadOptions, Record, Unreadable
from tests.support.office_files import with_part, workbook
from tests.support.page_tree import page_tree
from tests.support.reading import document_of, read_all

RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
BODY, SHEETS = b"<w:body>", re.compile(rb"<sheet [^>]*/>")
SHAPE = (
    b'<p:sp><p:nvSpPr><p:cNvPr id="2" name="a"/><p:cNvSpPr/><p:nvPr/></p:nvSpPr><p:spPr/><p:txBody><a:bodyPr/>'
    b"<a:p><a:r><a:t>a</a:t></a:r></a:p></p:txBody></p:sp>"
)


TABLE = b"http://schemas.openxmlformats.org/drawingml/2006/table"
FRAME = (
    b'<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr id="3" name="t"/><p:cNvGraphicFramePr/><p:nvPr/></p:nvGraphicFramePr><p:xfrm/>'
    b'<a:graphic><a:graphicData uri="' + TABLE + b'">%b</a:graphicData></a:graphic></p:graphicFrame>'
)


def part_of(path: Path, name: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return archive.read(name)


def word(path: Path, block: bytes) -> None:
    Document().save(str(path))
    name = "word/document.xml"
    with_part(path, name, part_of(path, name).replace(BODY, BODY + block))


def slides(path: Path, shape: bytes) -> None:
    deck = Presentation()
    deck.slides.add_slide(deck.slide_layouts[6])
    deck.save(str(path))
    name = "ppt/slides/slide1.xml"
    with_part(path, name, part_of(path, name).replace(b"</p:spTree>", shape + b"</p:spTree>"))


def book(path: Path) -> bytes:
    Workbook().save(path)
    return part_of(path, "xl/workbook.xml")


def sheets(path: Path, count: int) -> None:
    parts = book(path)
    (sheet,) = SHEETS.findall(parts)
    many = b"".join(sheet.replace(b'"Sheet"', b'"S%d"' % number) for number in range(count))
    with_part(path, "xl/workbook.xml", parts.replace(sheet, many))


def entries(path: Path, count: int) -> None:
    book(path)
    with zipfile.ZipFile(path, "a") as archive:
        for number in range(count):
            archive.writestr(f"{number}", b"")


def test_what_a_small_file_claims_is_refused_with_the_figure_and_no_file_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary, folder = tmp_path / "temporary", tmp_path / "files"
    temporary.mkdir()
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    word(folder / "paragraphs.docx", b"<w:p><w:r><w:t>a</w:t></w:r></w:p>" * 60_000)
    word(folder / "tables.docx", b"<w:tbl><w:tr><w:tc>" * 1_000 + b"</w:tc></w:tr></w:tbl>" * 1_000)
    slides(folder / "shapes.pptx", SHAPE * 15_000)
    sheets(folder / "sheets.xlsx", 50)
    entries(folder / "entries.xlsx", 10_001)
    (folder / "pages.pdf").write_bytes(page_tree())
    (folder / "tables.html").write_bytes(b"<table><tr><td>" * 500)
    _, refused = read_all(folder)
    why = {Path(item.path).name: item.why for item in refused}
    expected = {
        "paragraphs.docx": r"word/document\.xml claims 2,\d+,\d+ bytes in \d+,\d+, more than 100 times",
        "tables.docx": "Excessive depth in document",
        "shapes.pptx": r"ppt/slides/slide1\.xml claims 2,\d+,\d+ bytes in \d+,\d+, more than 100 times",
        "sheets.xlsx": r"it claims 50 sheets, and has 1 parts for them",
        "entries.xlsx": r"it has 10,\d+ parts, of at most 10,000",
        "tables.html": r"its tables are nested deeper than 30 levels",
        "pages.pdf": r"it claims 20,000 pages in \d+,\d+ bytes",
    }
    for name, reason in expected.items():
        assert re.search(reason, why[name]), name
    assert list(temporary.iterdir()) == []


def test_a_chart_that_a_file_names_2_000_times_is_read_once(tmp_path: Path) -> None:
    document = Document()
    points = b"".join(b'<c:pt idx="%d"><c:v>%d</c:v></c:pt>' % (at, at) for at in range(50))
    chart = (
        b'<c:chartSpace xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart"><c:plotArea><c:barChart><c:ser><c:val>'
        + points
        + b"</c:val></c:ser></c:barChart></c:plotArea></c:chartSpace>"
    )
    part = Part(PackURI("/word/chart.xml"), "application/xml", chart, document.part.package)
    name = document.part.relate_to(part, f"{RELATIONS}/chart")
    document.save(str(tmp_path / "a.docx"))
    named = f'<c:chart xmlns:c="c" xmlns:r="{RELATIONS}" r:id="{name}"/>'.encode()
    body = part_of(tmp_path / "a.docx", "word/document.xml")
    paragraph = b"<w:p><w:r><w:drawing>" + named + b"</w:drawing></w:r></w:p>"
    with_part(tmp_path / "a.docx", "word/document.xml", body.replace(BODY, BODY + paragraph * 2_000))
    assert document_of(tmp_path / "a.docx").text.splitlines() == [str(at) for at in range(50)]


def test_thousands_of_names_of_cells_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.xlsx"
    workbook(path, ["bread"])
    book = part_of(path, "xl/workbook.xml")
    names = b"".join(b'<definedName name="n%d">Sheet!$A$1</definedName>' % number for number in range(5_000))
    with_part(
        path,
        "xl/workbook.xml",
        re.sub(rb"<definedNames */>", b"<definedNames>" + names + b"</definedNames>", book),
    )
    parts = SheetParts(io.BytesIO(path.read_bytes()))
    assert len(load_workbook(parts.content).defined_names) == 0
    assert document_of(path).text == "## Sheet\n\nbread"


def test_spans_of_table_cells_are_not_unfolded(tmp_path: Path) -> None:
    span = b'<w:tcPr><w:gridSpan w:val="2000000000"/><w:vMerge/></w:tcPr><w:p><w:r><w:t>a</w:t></w:r></w:p>'
    word(tmp_path / "a.docx", b"<w:tbl><w:tr><w:tc>" + span + b"</w:tc></w:tr></w:tbl>")
    assert document_of(tmp_path / "a.docx").text == "a"


class Name(str):
    """A name of a column; it counts how often it is compared with another one."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)

    def strip(self, _: str | None = None) -> Name:
        return self


def test_the_names_of_columns_are_not_compared_with_each_other_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Name, "compared", 0)
    header = csv_rows._header([Name(name) for name in ("a", *map(str, range(1_000)), "a")], options())
    assert (header[0], header[1], header[-1]) == ("a 1", "0", "a 2")
    assert Name.compared < 10_000


def test_a_short_row_takes_no_time_for_the_columns_that_it_lacks() -> None:
    header = ["text", *(f"c{number}" for number in range(100_000))]
    cells = ["bread"]
    (record,) = csv_rows._record(header, cells, options(), line=2)
    assert isinstance(record, Record)
    assert (record.text, len(cells)) == ("bread", 1)


def options(fields: Mapping[str, str] | None = None) -> ReadOptions:
    return ReadOptions(fields or {}, 1_000_000, 1_000_000)


def test_front_matter_with_aliases_brackets_or_lines_without_end_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: list[str] = []
    parse = markdown._yaml

    def counted(block: str) -> dict[str, Any] | None:
        parsed.append(block)
        return parse(block)

    monkeypatch.setattr(markdown, "_yaml", counted)
    laughs = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60))]
    for front in ("\n".join(laughs), f"a: {'[' * 20_000}", "a: b: c\n" * 100_000):
        parsed.clear()
        raw = io.BufferedReader(io.BytesIO(f"---\n{front}\n---\nthe text\n".encode()))
        *_, record = markdown.read(raw, options())
        assert isinstance(record, Record)
        assert record.text == "the text\n"
        assert len(repr(record.metadata)) < 50_000
        assert len(parsed) <= 1_001


@pytest.mark.parametrize("value", ["!!bool x", "!!timestamp x", "!!int x", "!!set {a}", "2026-99-99"])
def test_a_value_of_front_matter_that_is_not_of_its_type_costs_that_value_alone(value: str) -> None:
    raw = io.BufferedReader(io.BytesIO(f"---\na: {value}\n---\nthe text\n".encode()))
    *_, record = markdown.read(raw, options())
    assert isinstance(record, Record)
    assert record.text == "the text\n"
    assert record.metadata in ({}, {"a": value})


def test_a_table_of_a_slide_is_read_in_its_length(tmp_path: Path) -> None:
    def cost_s(rows: int, columns: int) -> float:
        cell = b"<a:tc><a:txBody><a:bodyPr/><a:p><a:r><a:t>a</a:t></a:r></a:p></a:txBody></a:tc>"
        table = b"<a:tbl><a:tblGrid/>" + (b'<a:tr h="1">' + cell * columns + b"</a:tr>") * rows + b"</a:tbl>"
        slides(tmp_path / "a.pptx", FRAME % table)
        begun_s = time.process_time()
        content = io.BytesIO((tmp_path / "a.pptx").read_bytes())
        (record,) = powerpoint.read(io.BufferedReader(content), options())
        assert isinstance(record, Record)
        assert (record.text.count("a"), record.text.count("\na")) == (rows * columns, rows)
        return time.process_time() - begun_s

    cost_s(1, 1)  # what the first file imports is not counted
    assert cost_s(800, 1) < 8 * cost_s(28, 28)


HTML = {
    "open cells": ("", "<td>"),
    "open items": ("", "<li>a"),
    "numbered items": ("<ol>", "<li>a</li>"),
    "cells over a thousand columns": ("<table><tr>", "<td colspan=1000>a</td>"),
    "cells over a thousand rows": ("<table><tr>", "<td rowspan=1000>a</td><tr>"),
    "rows of names": ("<table><thead>", "<tr><td>a<td>b"),
    "groups of rows": ("<table>", "<tbody><tr><td>a<td>b"),
    "comments without end": ("", "<!-- >"),
    "tags without end": ("", "<meta "),
    "spaces": ("<p>a", " "),
    "rules without end": ("<style>", "@"),
    "a selector without rules": ("<style>", "a"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", HTML)
def test_a_hostile_page_takes_at_most_five_times_the_work_of_a_page_of_paragraphs(what: str) -> None:
    def cost_s(begin: str, piece: str) -> float:
        begun_s = time.process_time()
        page = (begin + piece * (20_000 // len(piece))).encode()
        assert list(html.read(io.BufferedReader(io.BytesIO(page)), options()))
        return time.process_time() - begun_s

    cost_s("", "<p>a</p> ")  # what the first page compiles is not counted
    assert cost_s(*HTML[what]) < 5 * cost_s("", "<p>a</p> ")


def test_a_page_with_more_rules_that_hide_than_are_tried_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(html_visibility, "_MOST_RULES_TIMES_TAGS", 1_000)
    page = b"<style>" + b"x{display:none}" * 20 + b"</style>" + b"<p>a</p>" * 50
    with pytest.raises(Unreadable, match="more rules that hide, times its 51 tags, than 1,000"):
        list(html.read(io.BufferedReader(io.BytesIO(page)), options()))


def test_what_a_page_leaves_open_or_spans_too_far_is_read(tmp_path: Path) -> None:
    table = "<table><tr><th>a<th>b" + "<tr><td rowspan=1000 colspan=²>c<td>d" * 200
    (tmp_path / "a.html").write_text(
        f"{table}</table><ol start={'9' * 5_000}><li>one<li>two</ol><!-- > 1 < 2"
    )
    text = document_of(tmp_path / "a.html").text
    assert text.count("d |") == 200
    assert text.endswith("1. one\n2. two\n\n\\<!-- > 1 < 2")


def test_a_table_of_several_groups_is_one_table(tmp_path: Path) -> None:
    rows = "<tbody><tr><td>a<td>b<tbody><tr><td>c<td>d<tfoot><tr><td>e<td>f"
    (tmp_path / "a.html").write_text(f"<table>{rows}</table>")
    assert document_of(tmp_path / "a.html").text.splitlines()[2:] == ["| a | b |", "| c | d |", "| e | f |"]


def test_a_grid_table_is_refused_by_its_columns_times_its_characters(tmp_path: Path) -> None:
    border, cells = "+" + "--+" * 3_000, "|" + "a |" * 3_000
    (tmp_path / "a.rst").write_text(f"{border}\n{cells}\n{border}\n")
    _, (refused,) = read_all(tmp_path)
    assert refused.why == (
        "the columns times the characters of its grid tables are 81,045,006, of at most 50,000,000; write them as CSV"
    )


def test_a_word_of_a_pdf_is_read_in_its_length() -> None:
    def cost_s(text: bytes) -> float:
        begun_s = time.process_time()
        (record,) = pdf.read(io.BufferedReader(io.BytesIO(page_tree(1, text))), options())
        assert isinstance(record, Record)
        assert record.text == text.decode()
        return time.process_time() - begun_s

    # The long word once took 13 s, and the same letters in short words 0.02 s.
    assert cost_s(b"a" * 20_000) < 50 * cost_s(b"aaa " * 4_999 + b"aaaa")
