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

from ingest.raw_documents import RawDocument, Skipped
from ingest.read import read_documents
from ingest.split import Splitter
from models.not_indexed import NotIndexed
from tests.support.not_indexed import add_picture, garbled_page, with_page


def only(path: Path, **options: Any) -> RawDocument:
    (document,), notes = read_all(path, **options)
    assert not notes
    return document


def read_all(path: Path, **options: Any) -> tuple[list[RawDocument], list[Skipped]]:
    items = list(read_documents([path], **{"source": "s", **options}))
    documents = [item for item in items if isinstance(item, RawDocument)]
    return documents, [item for item in items if isinstance(item, Skipped)]


def pdf(path: Path, text: str, **properties: str) -> Path:
    writer = with_page(text)
    writer.add_metadata(
        {"/Title": "The report", "/Author": "Ann", "/CreationDate": "D:20240506070809+02'00'", **properties}
    )
    writer.write(path)
    return path


def written(writer: PdfWriter, folder: Path) -> Path:
    writer.write(path := folder / "a.pdf")
    return path


def test_pdf_is_read_by_its_text_layer_with_its_own_title_author_and_date(tmp_path: Path) -> None:
    path = pdf(tmp_path / "a.pdf", "Hello from a page")
    document = only(path, fields={"published_at": "created_at"})
    assert (document.title, document.text) == ("The report", "Hello from a page")
    created = "2024-05-06T07:08:09+02:00"
    assert document.metadata == {"author": "Ann", "created_at": created, "published_at": created}


def test_a_date_of_a_pdf_in_another_form_is_reported_and_the_document_kept(tmp_path: Path) -> None:
    (document,), (note,) = read_all(pdf(tmp_path / "a.pdf", "Hello", **{"/CreationDate": "soon"}))
    assert document.metadata == {"author": "Ann"}
    assert note.why == "created_at: 'soon' is not a date; indexed without it"


def test_a_pdf_that_is_only_an_image_is_reported_as_scanned(tmp_path: Path) -> None:
    Image.new("L", (30, 30), "white").save(tmp_path / "scan.pdf")
    _, (scan,) = read_all(tmp_path / "scan.pdf")
    assert (scan.reason, scan.why) == (NotIndexed.NO_TEXT, "scanned: no text; it needs OCR first")
    _, (blank,) = read_all(pdf(tmp_path / "blank.pdf", ""))
    assert (blank.reason, blank.why) == (NotIndexed.NO_TEXT, "no text in it")


def test_pages_of_a_pdf_with_a_picture_and_no_text_are_named_and_blank_pages_are_not(tmp_path: Path) -> None:
    writer = PdfWriter(clone_from=pdf(tmp_path / "a.pdf", "Hello from a page"))
    writer.add_blank_page(300, 300)
    add_picture(writer)
    (document,), (note,) = read_all(written(writer, tmp_path))
    assert document.text.strip() == "Hello from a page"
    assert (note.reason, note.why) == (
        NotIndexed.PICTURE_PAGES,
        "pages with pictures and no text, which need OCR first: 3",
    )


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-128", "AES-256"])
def test_a_pdf_that_anybody_may_open_is_read_although_it_is_encrypted(tmp_path: Path, algorithm: str) -> None:
    writer = with_page("Boats leave before noon.")
    writer.encrypt("", owner_password="boss", algorithm=algorithm)
    assert only(written(writer, tmp_path)).text == "Boats leave before noon."


def test_a_pdf_that_needs_a_password_is_reported_as_locked(tmp_path: Path) -> None:
    writer = with_page("Boats leave before noon.")
    writer.encrypt("a reader's", owner_password="boss", algorithm="AES-256")
    _, (note,) = read_all(written(writer, tmp_path))
    assert (note.reason, note.why) == (NotIndexed.MALFORMED, "locked with a password")


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
    assert only(written(writer, tmp_path)).text == (
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
    assert only(written(writer, tmp_path)).text == f"Berth request\n{text}"


def add_annotations(writer: PdfWriter, *given: dict[str, Any]) -> None:
    """Adds form fields, and other annotations, to the first page."""
    annotations = ArrayObject()
    for entries in given:
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


def test_pages_of_a_pdf_whose_font_does_not_say_which_characters_it_shows_are_named(tmp_path: Path) -> None:
    writer = with_page("Hello from a page")
    garbled_page(writer)
    (document,), (note,) = read_all(written(writer, tmp_path))
    assert document.text.strip() == "Hello from a page"
    assert (note.reason, note.why) == (
        NotIndexed.GARBLED_PAGES,
        "pages whose fonts do not say which characters they show, which need OCR first: 2",
    )


def test_a_pdf_of_only_such_pages_is_not_indexed(tmp_path: Path) -> None:
    garbled_page(writer := PdfWriter())
    _, (note,) = read_all(written(writer, tmp_path))
    assert note.reason is NotIndexed.NO_TEXT
    assert note.why == "its fonts do not say which characters they show; it needs OCR first"


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
    assert only(written(writer, tmp_path)).text == text


@pytest.mark.parametrize(
    ("drawn", "text"),
    [
        (r"Universit\301a di H\310olle, Apart\302e", "Università di Hölle, Aparté"),
        (r"it\302s l\302eau \301a b\301", "it´s l´eau `a b`"),
    ],
)
def test_a_letter_and_its_accent_are_one(tmp_path: Path, drawn: str, text: str) -> None:
    """The accents have the numbers 193 (grave), 194 (acute) and 200 (diaeresis) in the standard encoding of fonts."""
    assert only(pdf(tmp_path / "a.pdf", drawn)).text == text


def test_a_space_that_is_drawn_in_the_place_of_a_ligature_is_none(tmp_path: Path) -> None:
    """A space of 3 points that begins 5 points to the left, as `TJ` places it, lies within the letters before it."""
    writer = with_page("The fi) Tj [(fi) 400 ( ) -100 (elds)] TJ (")
    assert only(written(writer, tmp_path)).text == "The fifields"
    writer = with_page("The fi elds and files")
    assert only(written(writer, tmp_path)).text == "The fi elds and files"


@pytest.mark.parametrize(
    "title",
    [
        "untitled",
        "(anonymous)",
        "Untitled-1",
        "Untitled Document",
        "Document2",
        "Microsoft Word - rules-v7.docx",
        "Microsoft PowerPoint - Spring",
        "PowerPoint Presentation",
        "PowerPoint-Präsentation",
        "Présentation PowerPoint",
        "Presentación de PowerPoint",
        "rules v7 final.indd",
        "C:\\rules\\v7.doc",
        "_____",
        "Presentación1",
        "Документ1",
        "Pasta1",
        "無題",
        "C:\\wp\\MT_r1.wpd       [PFP#1181003885]",
        "Paper Title (use style: paper title)",
        "Click to edit Master title style",
        "[Type the document title]",
        "Conference Paper Title*",
        "Title of the paper",
        "Lorem ipsum dolor sit amet",
    ],
)
def test_a_title_that_a_program_or_a_template_left_is_none(tmp_path: Path, title: str) -> None:
    path = pdf(tmp_path / "rules.pdf", "Boats leave before noon.", **{"/Title": title})
    assert only(path).title == "rules"


@pytest.mark.parametrize(
    "title",
    [
        "The unknown soldier",
        "Document retention",
        "PowerPoint for beginners",
        "Node.js",
        "Microsoft Word",
        "7",
        "Saving as .docx",
        "Über uns",
        "Pasta",
        "Title IX",
        "Title of nobility",
        "Template metaprogramming",
        "How to use styles",
    ],
)
def test_a_title_that_somebody_wrote_is_kept(tmp_path: Path, title: str) -> None:
    assert only(pdf(tmp_path / "a.pdf", "text", **{"/Title": title})).title == title


def test_a_passage_of_a_pdf_knows_its_pages(tmp_path: Path) -> None:
    """Of four pages of 40 words each, a passage has at most 100 words."""
    writer = with_page("one " * 40)
    for word in ("two", "three", "four"):
        writer.add_page(with_page(f"{word} " * 40).pages[0])
    passages = Splitter(lambda text: len(text.split()), max_pieces=100).split(only(written(writer, tmp_path)))
    words = [("one", "1"), ("two", "2"), ("three", "3"), ("four", "4")]
    for passage in passages:
        pages = [page for word, page in words if word in passage.text.split()]
        assert passage.pages == (pages[0] if len(pages) == 1 else f"{pages[0]}-{pages[-1]}")
    assert len(passages) > 1


def test_a_passage_of_a_document_without_pages_has_none(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one page")
    (passage,) = Splitter(len, max_pieces=100).split(only(tmp_path / "a.txt"))
    assert passage.pages == ""


def test_pages_are_those_of_the_text_although_a_long_title_goes_before_it(tmp_path: Path) -> None:
    writer = with_page("first")
    writer.add_page(with_page("second").pages[0])
    writer.add_metadata({"/Title": "word " * 100})
    document = only(written(writer, tmp_path))
    assert [document.text[start:].split()[0] for start in document.page_starts] == ["first", "second"]
