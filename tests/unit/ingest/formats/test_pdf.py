"""PDF files, made by pypdf and read by PDFium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from pypdf import PdfWriter
from pypdf.generic import ArrayObject, DictionaryObject, NameObject, RectangleObject
from pypdf.generic import NumberObject as Number
from pypdf.generic import TextStringObject as Text

from ingest.split import Splitter
from ingest.titles import as_title
from models.not_indexed import NotIndexed
from tests.support.not_indexed import add_picture, garbled_page, with_page
from tests.support.reading import document_of, read_all, skipped


def pdf(path: Path, text: str, **properties: str) -> Path:
    writer = with_page(text)
    writer.add_metadata(
        {"/Title": "The report", "/Author": "Ann", "/CreationDate": "D:20240506070809+02'00'", **properties}
    )
    writer.write(path)
    return path


def saved(writer: PdfWriter, folder: Path) -> Path:
    writer.write(path := folder / "a.pdf")
    return path


def test_pdf_is_read_by_its_text_layer_with_its_own_title_author_and_date(tmp_path: Path) -> None:
    path = pdf(tmp_path / "a.pdf", "Hello from a page")
    document = document_of(path, fields={"published_at": "created_at"})
    assert (document.title, document.text) == ("The report", "Hello from a page")
    created = "2024-05-06T07:08:09+02:00"
    assert document.metadata == {"author": "Ann", "created_at": created, "published_at": created}


def test_a_pdf_without_any_text_says_why(tmp_path: Path) -> None:
    Image.new("L", (30, 30), "white").save(scan := tmp_path / "scan.pdf")
    garbled_page(garbled := PdfWriter())
    for path, why in (
        (scan, "scanned: no text; it needs OCR first"),
        (pdf(tmp_path / "blank.pdf", ""), "no text in it"),
        (saved(garbled, tmp_path), "its fonts do not say which characters they show; it needs OCR first"),
    ):
        assert (skipped(path).reason, skipped(path).why) == (NotIndexed.NO_TEXT, why)


def test_pages_of_a_pdf_with_pictures_or_unknown_characters_are_named_and_blank_pages_are_not(
    tmp_path: Path,
) -> None:
    writer = PdfWriter(clone_from=pdf(tmp_path / "a.pdf", "Hello from a page"))
    writer.add_blank_page(300, 300)
    add_picture(writer)
    garbled_page(writer)
    (document,), notes = read_all(saved(writer, tmp_path))
    assert document.text.strip() == "Hello from a page"
    garbled = "pages whose fonts do not say which characters they show, which need OCR first: 4"
    assert [(note.reason, note.why) for note in notes] == [
        (NotIndexed.PICTURE_PAGES, "pages with pictures and no text, which need OCR first: 3"),
        (NotIndexed.GARBLED_PAGES, garbled),
    ]


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-128", "AES-256"])
def test_an_encrypted_pdf_is_read_if_anybody_may_open_it_and_else_reported_as_locked(
    tmp_path: Path, algorithm: str
) -> None:
    for password in ("", "a reader's"):
        writer = with_page("Boats leave before noon.")
        writer.encrypt(password, owner_password="boss", algorithm=algorithm)
        path = saved(writer, tmp_path)
        if password:
            assert (skipped(path).reason, skipped(path).why) == (
                NotIndexed.MALFORMED,
                "locked with a password",
            )
        else:
            assert document_of(path).text == "Boats leave before noon."


def test_what_people_filled_into_a_form_follows_the_text_of_its_page(tmp_path: Path) -> None:
    writer = with_page("Berth request")
    add_annotations(
        writer,
        {"/FT": "/Tx", "/T": Text("boat"), "/V": Text("Wolframheart")},
        {"/FT": "/Tx", "/T": Text("f1_2"), "/TU": Text("Home port"), "/V": Text("Łódź")},
        {"/FT": "/Btn", "/T": Text("insured"), "/V": NameObject("/Yes"), "/AS": NameObject("/Yes")},
        {"/FT": "/Btn", "/T": Text("sold"), "/V": NameObject("/Off"), "/AS": NameObject("/Off")},
        {"/FT": "/Tx", "/T": Text("empty")},
        {"/FT": "/Tx", "/T": Text("unseen"), "/V": Text("x"), "/F": Number(2)},
        {"/FT": "/Tx", "/T": Text("password"), "/V": Text("x"), "/Ff": Number(1 << 13)},
        {"/Subtype": "/FreeText", "/Contents": Text("Paid on Monday")},
    )
    writer.add_page(with_page("The next page").pages[0])
    assert document_of(saved(writer, tmp_path)).text == (
        "Berth request\nboat: Wolframheart\nHome port: Łódź\ninsured: Yes\nPaid on Monday\n\nThe next page"
    )


@pytest.mark.parametrize(
    ("flags", "value", "text"),
    [
        (1 << 17, Text("IT"), "Country: Italy"),
        (1 << 17 | 1 << 18, Text("Malta"), "Country: Malta"),
        (1 << 21, ArrayObject([Text("IT"), Text("PL")]), "Country: Italy, Poland"),
    ],
    ids=["one of a list", "a text of its own", "several of a list"],
)
def test_a_choice_in_a_form_reads_as_the_label_that_a_person_sees(
    tmp_path: Path, flags: int, value: Any, text: str
) -> None:
    writer = with_page("Berth request")
    labels = {"DE": "Germany", "IT": "Italy", "PL": "Poland"}
    options = ArrayObject(ArrayObject(map(Text, option)) for option in labels.items())
    add_annotations(
        writer, {"/FT": "/Ch", "/T": Text("Country"), "/Ff": Number(flags), "/Opt": options, "/V": value}
    )
    assert document_of(saved(writer, tmp_path)).text == f"Berth request\n{text}"


def add_annotations(writer: PdfWriter, *properties: dict[str, Any]) -> None:
    """Adds form fields, and other annotations, to the first page."""
    annotations = ArrayObject()
    for entries in properties:
        values = {"/Type": "/Annot", "/Subtype": "/Widget", "/F": Number(4), **entries}
        annotation = DictionaryObject(
            {
                NameObject(key): NameObject(value) if type(value) is str else value
                for key, value in values.items()
            }
        )
        annotation[NameObject("/Rect")] = RectangleObject((20, 100, 120, 120))
        annotations.append(writer._add_object(annotation))
    writer.pages[0][NameObject("/Annots")] = annotations
    fields = ArrayObject(each for each in annotations if each.get_object()["/Subtype"] == "/Widget")
    writer._root_object[NameObject("/AcroForm")] = DictionaryObject({NameObject("/Fields"): fields})


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["an electro-", "magnetic wave"], "an electromagnetic wave"),
        (["a well-known path is well-", "known"], "a well-known path is well-known"),
        (["between Baden-", "Baden and Ulm"], "between Baden-Baden and Ulm"),
    ],
)
def test_a_word_that_a_line_end_of_a_pdf_cuts_is_whole(tmp_path: Path, lines: list[str], text: str) -> None:
    writer = with_page(") Tj 0 -14 Td (".join(lines))
    assert document_of(saved(writer, tmp_path)).text == text


@pytest.mark.parametrize(
    ("drawn", "text"),
    [
        (r"Universit\301a di H\310olle, Apart\302e", "Università di Hölle, Aparté"),
        (r"it\302s l\302eau \301a b\301", "it´s l´eau `a b`"),
    ],
)
def test_a_letter_and_its_accent_are_one(tmp_path: Path, drawn: str, text: str) -> None:
    """The accents have the numbers 193 (grave), 194 (acute) and 200 (diaeresis) in the standard encoding of fonts."""
    assert document_of(pdf(tmp_path / "a.pdf", drawn)).text == text


def test_a_space_that_is_drawn_in_the_place_of_a_ligature_is_none(tmp_path: Path) -> None:
    """A space of 3 points that begins 5 points to the left, as `TJ` places it, lies within the letters before it."""
    writer = with_page("The fi) Tj [(fi) 400 ( ) -100 (elds)] TJ (")
    assert document_of(saved(writer, tmp_path)).text == "The fifields"
    writer = with_page("The fi elds and files")
    assert document_of(saved(writer, tmp_path)).text == "The fi elds and files"


PLACEHOLDERS = (
    "untitled|(anonymous)|Untitled-1|Untitled Document|Document2|Microsoft Word - rules-v7.docx|Microsoft PowerPoint - Spring"
    "|PowerPoint Presentation|PowerPoint-Präsentation|Présentation PowerPoint|Presentación de PowerPoint|rules v7 final.indd"
    r"|C:\rules\v7.doc|_____|Presentación1|Документ1|Pasta1|無題|C:\wp\MT_r1.wpd       [PFP#1181003885]"
    "|Paper Title (use style: paper title)|Click to edit Master title style|[Type the document title]"
    "|Conference Paper Title*|Title of the paper|Lorem ipsum dolor sit amet"
)


@pytest.mark.parametrize("title", PLACEHOLDERS.split("|"))
def test_a_title_that_a_program_or_a_template_left_is_none(title: str) -> None:
    assert as_title(title) == ""


WRITTEN = (
    "The unknown soldier|Document retention|PowerPoint for beginners|Node.js|Microsoft Word|7|Saving as .docx|Über uns|Pasta"
    "|Title IX|Title of nobility|Template metaprogramming|How to use styles"
)


@pytest.mark.parametrize("title", WRITTEN.split("|"))
def test_a_title_that_somebody_wrote_is_kept(title: str) -> None:
    assert as_title(title) == title


@pytest.mark.parametrize(("title", "read"), [("untitled", "rules"), ("Node.js", "Node.js")])
def test_the_title_of_a_pdf_is_its_own_unless_a_program_left_it(
    tmp_path: Path, title: str, read: str
) -> None:
    path = pdf(tmp_path / "rules.pdf", "Boats leave before noon.", **{"/Title": title})
    assert document_of(path).title == read


def test_a_passage_of_a_pdf_knows_its_pages(tmp_path: Path) -> None:
    """Of four pages of 40 words each, a passage has at most 100 words."""
    writer = with_page("one " * 40)
    for word in ("two", "three", "four"):
        writer.add_page(with_page(f"{word} " * 40).pages[0])
    passages = Splitter(lambda text: len(text.split()), max_pieces=100).split(
        document_of(saved(writer, tmp_path))
    )
    words = [("one", "1"), ("two", "2"), ("three", "3"), ("four", "4")]
    for passage in passages:
        pages = [page for word, page in words if word in passage.text.split()]
        assert passage.pages == (pages[0] if len(pages) == 1 else f"{pages[0]}-{pages[-1]}")
    assert len(passages) > 1


def test_a_passage_of_a_document_without_pages_has_none(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one page")
    (passage,) = Splitter(len, max_pieces=100).split(document_of(tmp_path / "a.txt"))
    assert passage.pages == ""


def test_pages_are_those_of_the_text_although_a_long_title_goes_before_it(tmp_path: Path) -> None:
    writer = with_page("first")
    writer.add_page(with_page("second").pages[0])
    writer.add_metadata({"/Title": "word " * 100})
    document = document_of(saved(writer, tmp_path))
    assert [document.text[start:].split()[0] for start in document.page_starts] == ["first", "second"]
