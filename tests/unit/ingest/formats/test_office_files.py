"""What Word, PowerPoint and Excel files have in common."""

from __future__ import annotations

import io
import re
import shutil
import sys
import zipfile
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import pytest
from docx import Document
from docx.opc.constants import RELATIONSHIP_TYPE
from pptx import Presentation
from pptx.util import Inches

from ingest.raw_documents import ReadOptions, Unreadable
from models.not_indexed import NotIndexed
from tests.support.office_files import with_part, workbook
from tests.support.reading import document_of, skipped, with_note, written

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


@pytest.mark.parametrize(
    ("suffix", "target"), [("docx", "NULL"), ("pptx", "media/missing.png"), ("xlsx", "../nowhere.xml")]
)
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


def test_a_workbook_is_read_although_it_lacks_a_part_that_its_types_name(tmp_path: Path) -> None:
    path = workbook(tmp_path / "a.xlsx", [1, 2])
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist() if name != "xl/sharedStrings.xml"}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    assert document_of(path).text == "## Sheet\n\n1 | 2"


@pytest.mark.parametrize("suffix", ["docx", "pptx", "xlsx"])
def test_an_office_file_in_the_strict_form_of_its_format_is_read(tmp_path: Path, suffix: str) -> None:
    path, _ = with_text(tmp_path / f"a.{suffix}")
    transitional = rb"http://schemas\.openxmlformats\.org/(?!package)(\w+)/2006/"
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, re.sub(transitional, rb"http://purl.oclc.org/ooxml/\1/", content))
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


def test_title_author_and_dates_are_the_documents_own(tmp_path: Path) -> None:
    document = Document()
    document.add_paragraph("text")
    own = document.core_properties
    own.title, own.author = "The report", "Ann"
    own.created, own.modified = datetime(2024, 5, 6, tzinfo=UTC), datetime(2024, 5, 7, 8, tzinfo=UTC)
    document.save(str(tmp_path / "a.docx"))
    read = document_of(tmp_path / "a.docx", fields={"published_at": "created_at"})
    assert (read.title, read.metadata["author"]) == ("The report", "Ann")
    assert read.metadata["created_at"] == read.metadata["published_at"] == "2024-05-06T00:00:00+00:00"
    assert read.metadata["modified_at"] == "2024-05-07T08:00:00+00:00"


def test_a_file_without_properties_has_no_metadata(tmp_path: Path) -> None:
    path = with_part(workbook(tmp_path / "a.xlsx", ["text"]), "docProps/core.xml", b"<none/>")
    assert (document_of(path).title, document_of(path).metadata) == ("a", {})


def test_a_date_in_another_form_is_reported_and_the_document_kept(tmp_path: Path) -> None:
    dated = b'<a xmlns:t="http://purl.org/dc/terms/"><t:created>soon</t:created></a>'
    path, _ = with_text(tmp_path / "a.docx")
    _, note = with_note(with_part(path, "docProps/core.xml", dated))
    why = "created_at: 'soon' is not a date; indexed without it"
    assert (note.reason, note.why) == (NotIndexed.METADATA, why)


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


@pytest.mark.parametrize("suffix", ["docx", "pptx", "xlsx"])
def test_a_torn_or_old_file_is_refused(tmp_path: Path, suffix: str) -> None:
    for content, why in (
        (b"PK\x03\x04torn", "damaged"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "before Office 2007"),
    ):
        only = skipped(written(tmp_path, f"a.{suffix}", content))
        assert only.reason is NotIndexed.MALFORMED
        assert why in only.why


def test_a_zip_bomb_is_refused_by_the_size_that_it_claims(tmp_path: Path) -> None:
    """One paragraph of 15 MB in 15 KB."""
    path, _ = with_text(tmp_path / "a.docx")
    text = f'<w:document xmlns:w="{W}"><w:body><w:p><w:r><w:t>'.encode() + b"a" * 15_000_000
    with_part(path, "word/document.xml", text + b"</w:t></w:r></w:p></w:body></w:document>")
    assert path.stat().st_size < 100_000
    only = skipped(path)
    assert only.reason is NotIndexed.OVER_LIMIT
    assert "word/document.xml claims 15,000,146 bytes" in only.why


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
    ("reader", "package"),
    [("word", "docx"), ("powerpoint", "pptx"), ("excel", "openpyxl"), ("pdf", "pypdfium2")],
)
def test_without_its_package_one_sentence_says_what_to_install(
    reader: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    read = import_module(f"ingest.formats.{reader}").read
    target = "pdf" if reader == "pdf" else "office"
    with pytest.raises(Unreadable, match=f"make {target}, or pip install") as refused:
        next(read(io.BufferedReader(io.BytesIO(b"PK")), ReadOptions({}, 100, 100)))
    assert refused.value.reason is NotIndexed.MISSING_PACKAGE
