"""Word, PowerPoint and Excel files, made by the libraries that read them."""

from __future__ import annotations

import io
import re
import shutil
import sys
import zipfile
from collections.abc import Mapping
from datetime import UTC, date, datetime
from importlib import import_module
from pathlib import Path

import pytest
from docx import Document
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml
from openpyxl import Workbook
from pptx import Presentation
from pptx.util import Inches

from ingest.formats.word_numbers import Numbers
from ingest.raw_documents import RawDocument, ReadLimits, ReadOptions, Skipped, Unreadable
from ingest.read import read_documents
from models.not_indexed import NotIndexed

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def document_of(path: Path, fields: Mapping[str, str] | None = None) -> RawDocument:
    (document,) = read_documents([path], source="s", fields=fields)
    assert isinstance(document, RawDocument)
    return document


def skipped(path: Path, limits: ReadLimits | None = None) -> Skipped:
    (only,) = read_documents([path], source="s", limits=limits)
    assert isinstance(only, Skipped)
    return only


def workbook(path: Path, *rows: list[object]) -> Path:
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    for row in rows:
        sheet.append(row)
    book.save(path)
    return path


def with_part(path: Path, name: str, content: bytes) -> Path:
    """The archive with another part, or with another content of a part that it has."""
    with zipfile.ZipFile(path) as archive:
        parts = {part: archive.read(part) for part in archive.namelist()} | {name: content}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, data in parts.items():
            archive.writestr(part, data)
    return path


def test_a_word_file_keeps_headings_lists_and_tables_in_their_order(tmp_path: Path) -> None:
    document = Document()
    document.add_heading("The handbook", 0)
    document.add_heading("Install", 1)
    document.add_paragraph("# of steps:\ntwo")
    document.add_paragraph("Unpack it", style="List Bullet")
    table = document.add_table(2, 2)
    for cell, text in zip(table._cells, ("Part", "Size", "Axle", "3 mm"), strict=True):
        cell.text = text
    document.add_heading("Deep", 9)
    document.add_paragraph("The end")
    document.save(str(tmp_path / "a.docx"))
    read = document_of(tmp_path / "a.docx")
    assert read.text == (
        "# The handbook\n\n# Install\n\n\\# of steps:\ntwo\n\n- Unpack it\n\n"
        "Part | Size\nAxle | 3 mm\n\n###### Deep\n\nThe end"
    )
    assert [heading.text for heading in read.headings or ()] == ["The handbook", "Install", "Deep"]


def test_a_heading_of_a_word_file_may_have_a_style_that_is_based_on_one(tmp_path: Path) -> None:
    document = Document()
    style = document.styles.add_style("Chapter", 1)
    style.base_style = document.styles["Heading 2"]
    document.add_paragraph("Brakes", style="Chapter")
    document.save(str(tmp_path / "a.docx"))
    assert document_of(tmp_path / "a.docx").text == "## Brakes"


def test_a_word_file_keeps_text_boxes_controls_and_inserted_words_but_no_deleted_ones(tmp_path: Path) -> None:
    document = Document()
    box = "<w:txbxContent><w:p><w:r><w:t>In the box</w:t></w:r></w:p></w:txbxContent>"
    changed = (
        "<w:ins><w:r><w:t> new</w:t></w:r></w:ins><w:del><w:r><w:delText> gone</w:delText></w:r></w:del>"
        "<w:moveFrom><w:r><w:t> moved</w:t></w:r></w:moveFrom>"
    )
    inner = "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>inner</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
    cell = f"<w:tc><w:p><w:r><w:t>outer</w:t></w:r></w:p>{inner}</w:tc>"
    for part in (
        f"<w:p><w:r><w:t>Text</w:t></w:r>{changed}<w:r><w:pict>{box}</w:pict></w:r></w:p>",
        "<w:sdt><w:sdtContent><w:p><w:r><w:t>In a control</w:t></w:r></w:p></w:sdtContent></w:sdt>",
        f"<w:tbl><w:tr>{cell}<w:tc><w:p/></w:tc><w:tc><w:p><w:r><w:t>last</w:t></w:r></w:p></w:tc></w:tr></w:tbl>",
    ):
        document.element.body.append(parse_xml(_w(part)))
    document.save(str(tmp_path / "a.docx"))
    assert document_of(tmp_path / "a.docx").text == (
        "Text new\n\nIn the box\n\nIn a control\n\nouter inner | | last"
    )


def test_a_word_file_keeps_footnotes_and_has_no_list_of_contents(tmp_path: Path) -> None:
    document = Document()
    contents = document.styles.add_style("toc 1", 1)
    document.add_paragraph("Install ..... 3", style=contents)
    document.add_paragraph("Text")
    note = "<w:footnotes><w:footnote><w:p><w:r><w:t>See below.</w:t></w:r></w:p></w:footnote></w:footnotes>"
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"
    part = Part(PackURI("/word/footnotes.xml"), kind, _w(note).encode(), document.part.package)
    document.part.relate_to(part, RELATIONSHIP_TYPE.FOOTNOTES)
    document.save(str(tmp_path / "a.docx"))
    assert document_of(tmp_path / "a.docx").text == "Text\n\nSee below."


def test_a_word_file_keeps_the_numbers_that_word_counts(tmp_path: Path) -> None:
    document = Document()
    rules = document.part.numbering_part.element
    levels = "".join(
        f'<w:lvl w:ilvl="{at}"><w:start w:val="{start}"/><w:numFmt w:val="{form}"/><w:lvlText w:val="{shown}"/></w:lvl>'
        for at, (start, form, shown) in enumerate(
            [
                (4, "decimal", "%1."),
                (1, "decimal", "%1.%2"),
                (1, "lowerLetter", "%3)"),
                (1, "upperRoman", "§ %4"),
            ]
        )
    )
    rules.append(parse_xml(_w(f'<w:abstractNum w:abstractNumId="90">{levels}</w:abstractNum>')))
    rules.append(parse_xml(_w('<w:num w:numId="90"><w:abstractNumId w:val="90"/></w:num>')))
    heading = document.add_heading("Duties", 2)
    first, *others = [
        document.add_paragraph(text) for text in ("Rent", "Heat", "Pets", "Cats", "Dogs", "Water")
    ]
    table = document.add_table(1, 1)
    table.cell(0, 0).text = "Keys"
    levels_of = [0, 1, 1, 2, 2, 3, 0]
    for each, level in zip([heading, first, *others], levels_of, strict=True):
        each._p.get_or_add_pPr().append(parse_xml(_w(_IN_LIST.format(level=level))))
    table.cell(0, 0).paragraphs[0]._p.get_or_add_pPr().append(parse_xml(_w(_IN_LIST.format(level=1))))
    document.save(str(tmp_path / "a.docx"))
    assert document_of(tmp_path / "a.docx").text == (
        "## 4. Duties\n\n4.1 Rent\n\n4.2 Heat\n\na) Pets\n\nb) Cats\n\n§ I Dogs\n\n5. Water\n\n5.1 Keys"
    )


_IN_LIST = '<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="90"/></w:numPr>'


def test_numbers_of_a_word_file_may_come_from_a_style(tmp_path: Path) -> None:
    document = Document()
    for text in ("Boil the water", "Wait"):
        document.add_paragraph(text, style="List Number")
    document.save(str(tmp_path / "a.docx"))
    assert document_of(tmp_path / "a.docx").text == "1. Boil the water\n\n2. Wait"


@pytest.mark.parametrize(
    ("number", "form", "shown"),
    [(28, "lowerLetter", "bb"), (1994, "upperRoman", "MCMXCIV"), (7, "decimalZero", "07"), (3, "none", "")],
)
def test_a_number_of_a_word_file_has_the_form_that_its_list_names(number: int, form: str, shown: str) -> None:
    rules = f"""<w:numbering><w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0"><w:start w:val="{number}"/>
        <w:numFmt w:val="{form}"/><w:lvlText w:val="%1"/></w:lvl></w:abstractNum>
        <w:num w:numId="2"><w:abstractNumId w:val="1"/></w:num></w:numbering>"""
    assert Numbers(parse_xml(_w(rules))).next("2", 0) == shown


def test_check_boxes_and_fractions_of_a_word_file_are_readable(tmp_path: Path) -> None:
    document = Document()
    box = "<w:fldChar><w:ffData><w:checkBox>{}</w:checkBox></w:ffData></w:fldChar>"
    math = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    half = f"<m:f {math}><m:num><m:r><m:t>1</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>"
    runs = [
        box.format('<w:default w:val="0"/><w:checked/>'),
        "<w:t> paid </w:t>",
        box.format('<w:default w:val="0"/>'),
        "<w:t> late </w:t>",
        '<w:sym w:font="Wingdings" w:char="F0FE"/>',
    ]
    paragraph = f"<w:p>{''.join(f'<w:r>{run}</w:r>' for run in runs)}{half}</w:p>"
    document.element.body.append(parse_xml(_w(paragraph)))
    document.save(str(tmp_path / "a.docx"))
    assert document_of(tmp_path / "a.docx").text == "[x] paid [ ] late ☒1/2"


def test_hidden_text_of_a_word_file_is_left_out_unless_somebody_asks_for_it(tmp_path: Path) -> None:
    document = Document()
    secret = document.styles.add_style("Secret", 2)
    secret.font.hidden = True
    paragraph = document.add_paragraph("Seen")
    paragraph.add_run(" by nobody").font.hidden = True
    paragraph.add_run(" at all", style="Secret")
    document.save(str(path := tmp_path / "a.docx"))
    note, read = read_documents([path], source="s")
    assert isinstance(note, Skipped)
    assert isinstance(read, RawDocument)
    assert (note.reason, note.why) == (NotIndexed.HIDDEN_TEXT, "hidden text; --hidden-text reads it")
    assert read.text == "Seen"
    (whole,) = read_documents([path], source="s", hidden_text=True)
    assert isinstance(whole, RawDocument)
    assert whole.text == "Seen by nobody at all"


@pytest.mark.parametrize("target", ["NULL", "media/missing.png", "../nowhere.xml"])
@pytest.mark.parametrize("suffix", ["docx", "pptx", "xlsx"])
def test_an_office_file_is_read_although_a_relation_leads_nowhere(
    tmp_path: Path, suffix: str, target: str
) -> None:
    path, name = with_text(tmp_path / f"a.{suffix}")
    with zipfile.ZipFile(path) as archive:
        relations = archive.read(name) if name in archive.namelist() else _NO_RELATIONS
    dangling = (
        f'<Relationship Id="rId99" Type="{RELATIONSHIP_TYPE.IMAGE}" Target="{target}"/></Relationships>'
    )
    with_part(path, name, relations.replace(b"</Relationships>", dangling.encode()))
    assert "Boats leave" in document_of(path).text


_NO_RELATIONS = (
    b'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"></Relationships>'
)


@pytest.mark.parametrize("suffix", ["docx", "pptx", "xlsx"])
def test_an_office_file_in_the_strict_form_of_its_format_is_read(tmp_path: Path, suffix: str) -> None:
    path, _ = with_text(tmp_path / f"a.{suffix}")
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    transitional = rb"http://schemas\.openxmlformats\.org/(?!package)(\w+)/2006/"
    for name, content in parts.items():
        with_part(path, name, re.sub(transitional, rb"http://purl.oclc.org/ooxml/\1/", content))
    assert "Boats leave" in document_of(path).text


def with_text(path: Path) -> tuple[Path, str]:
    """A file with a sentence, and the name of its main part's relations."""
    text = "Boats leave before noon."
    if path.suffix == ".docx":
        document = Document()
        document.add_paragraph(text)
        document.save(str(path))
        return path, "word/_rels/document.xml.rels"
    if path.suffix == ".xlsx":
        return workbook(path, [text]), "xl/worksheets/_rels/sheet1.xml.rels"
    show = Presentation()
    slide = show.slides.add_slide(show.slide_layouts[6])
    slide.shapes.add_textbox(*[Inches(1)] * 4).text_frame.text = text
    show.save(str(path))
    return path, "ppt/slides/_rels/slide1.xml.rels"


def _w(xml: str) -> str:
    """XML whose first element declares the prefix `w`."""
    return xml.replace(">", f' xmlns:w="{W}">', 1)


def test_a_slide_is_a_section_with_its_number_tables_and_notes(tmp_path: Path) -> None:
    show = Presentation()
    first = show.slides.add_slide(show.slide_layouts[1])
    assert first.shapes.title is not None
    first.shapes.title.text = "Tea"
    first.placeholders[1].text_frame.text = "Green\nBlack"
    assert first.notes_slide.notes_text_frame is not None
    first.notes_slide.notes_text_frame.text = "Show the pot."
    second = show.slides.add_slide(show.slide_layouts[6])
    table = second.shapes.add_table(2, 2, *[Inches(1)] * 4).table
    for number, text in enumerate(("Sort", "Minutes", "Green", "2")):
        table.cell(*divmod(number, 2)).text = text
    group = second.shapes.add_group_shape()
    group.shapes.add_textbox(*[Inches(1)] * 4).text_frame.text = "In a group"
    show.save(str(tmp_path / "a.pptx"))
    read = document_of(tmp_path / "a.pptx")
    assert read.title == "Tea"
    assert read.text == (
        "## Slide 1: Tea\n\nGreen\nBlack\n\nNotes: Show the pot.\n\n"
        "## Slide 2\n\nSort | Minutes\nGreen | 2\n\nIn a group"
    )


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


def test_rows_of_a_sheet_without_a_header_are_only_cells(tmp_path: Path) -> None:
    assert document_of(workbook(tmp_path / "a.xlsx", ["Ann", 1], ["Bob", 2])).text == (
        "## Sheet\n\nAnn | 1\nBob | 2"
    )


def test_title_author_and_dates_are_the_documents_own(tmp_path: Path) -> None:
    document = Document()
    document.add_paragraph("text")
    own = document.core_properties
    own.title, own.author = "The report", "Ann"
    own.created, own.modified = datetime(2024, 5, 6, tzinfo=UTC), datetime(2024, 5, 7, 8, tzinfo=UTC)
    document.save(str(tmp_path / "a.docx"))
    read = document_of(tmp_path / "a.docx", fields={"published_at": "created_at"})
    created = "2024-05-06T00:00:00+00:00"
    assert read.title == "The report"
    assert read.metadata == {
        "author": "Ann",
        "created_at": created,
        "modified_at": "2024-05-07T08:00:00+00:00",
        "published_at": created,
    }


def test_a_file_without_properties_has_no_metadata(tmp_path: Path) -> None:
    path = with_part(workbook(tmp_path / "a.xlsx", ["text"]), "docProps/core.xml", b"<none/>")
    assert (document_of(path).title, document_of(path).metadata) == ("a", {})


def test_a_date_in_another_form_is_reported_and_the_document_kept(tmp_path: Path) -> None:
    dated = b'<a xmlns:t="http://purl.org/dc/terms/"><t:created>soon</t:created></a>'
    document_file = Document()
    document_file.add_paragraph("text")
    document_file.save(str(tmp_path / "a.docx"))
    path = with_part(tmp_path / "a.docx", "docProps/core.xml", dated)
    note, document = read_documents([path], source="s")
    assert isinstance(note, Skipped)
    assert isinstance(document, RawDocument)
    assert (note.reason, note.why) == (
        NotIndexed.METADATA,
        "created_at: 'soon' is not a date; indexed without it",
    )


def test_a_file_with_a_password_is_reported_as_locked(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).parent / "locked.xlsx", tmp_path / "a.xlsx")
    only = skipped(tmp_path / "a.xlsx")
    assert only.reason is NotIndexed.MALFORMED
    assert only.why == "locked with a password"


@pytest.mark.parametrize(
    ("part", "content", "why"),
    [
        ("xl/vbaProject.bin", b"\0", "it has macros"),
        ("xl/workbook.xml", b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>', "entities"),
        ("xl/workbook.xml", '<!DOCTYPE a [<!ENTITY b "b">]><a/>'.encode("utf-16"), "entities"),
        ("xl/workbook.xml", b"<torn", "cannot be read"),
    ],
)
def test_macros_entities_and_damage_are_refused(tmp_path: Path, part: str, content: bytes, why: str) -> None:
    only = skipped(with_part(workbook(tmp_path / "a.xlsx", ["text"]), part, content))
    assert only.reason is NotIndexed.MALFORMED
    assert why in only.why


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"PK\x03\x04torn", "damaged"), (bytes.fromhex("d0cf11e0a1b11ae1"), "before Office 2007")],
)
@pytest.mark.parametrize("suffix", ["docx", "pptx", "xlsx"])
def test_a_torn_or_old_file_is_refused(tmp_path: Path, suffix: str, content: bytes, why: str) -> None:
    (tmp_path / f"a.{suffix}").write_bytes(content)
    only = skipped(tmp_path / f"a.{suffix}")
    assert only.reason is NotIndexed.MALFORMED
    assert why in only.why


def test_a_zip_bomb_ends_at_the_limit_of_memory(tmp_path: Path) -> None:
    """One paragraph of 150 MB in 150 KB."""
    Document().save(str(path := tmp_path / "a.docx"))
    text = f'<w:document xmlns:w="{W}"><w:body><w:p><w:r><w:t>'.encode() + b"a" * 150_000_000
    with_part(path, "word/document.xml", text + b"</w:t></w:r></w:p></w:body></w:document>")
    assert path.stat().st_size < 1_000_000
    only = skipped(path, ReadLimits(memory_mb=150))
    assert only.reason is NotIndexed.OVER_LIMIT
    assert "more than 150 MB of memory" in only.why


def test_a_sheet_that_claims_a_billion_cells_is_read_by_those_that_it_has(tmp_path: Path) -> None:
    path = workbook(tmp_path / "a.xlsx", ["Ann"])
    with zipfile.ZipFile(path) as archive:
        sheet = archive.read("xl/worksheets/sheet1.xml")
    claims = sheet.replace(b'<dimension ref="A1:A1"', b'<dimension ref="A1:XFD1048576"')
    assert claims != sheet
    assert document_of(with_part(path, "xl/worksheets/sheet1.xml", claims)).text == "## Sheet\n\nAnn"


@pytest.mark.parametrize("suffix", ["docx", "pptx", "xlsx"])
def test_a_file_without_text_is_reported(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    if suffix == "xlsx":
        workbook(path)
    elif suffix == "docx":
        Document().save(str(path))
    else:
        show = Presentation()
        show.slides.add_slide(show.slide_layouts[6])
        show.save(str(path))
    assert skipped(path).reason is NotIndexed.NO_TEXT


@pytest.mark.parametrize(
    ("reader", "package", "target"),
    [
        ("word", "docx", "office"),
        ("powerpoint", "pptx", "office"),
        ("excel", "openpyxl", "office"),
        ("pdf", "pypdfium2", "pdf"),
    ],
)
def test_without_its_package_one_sentence_says_what_to_install(
    reader: str, package: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    read = import_module(f"ingest.formats.{reader}").read
    with pytest.raises(Unreadable, match=f"make {target}, or pip install") as refused:
        next(read(io.BufferedReader(io.BytesIO(b"PK")), ReadOptions({}, 100, 100)))
    assert refused.value.reason is NotIndexed.MISSING_PACKAGE
