"""A case for each reason why something that was given is not indexed."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from PIL import Image
from pypdf import PdfWriter
from pypdf.generic import ArrayObject, DecodedStreamObject, DictionaryObject, NameObject

from ingest.headings import MAX_HEADINGS
from models.not_indexed import NotIndexed

LARGEST_FILE = 32 * 1024 * 1024
OUTPUT_MB = 1
"""The limit CHORALE_READ_OUTPUT_MB for these files."""

MANY_HEADINGS = "# a\n" * (MAX_HEADINGS + 1)


def file(name: str, content: bytes | str) -> Callable[[Path], object]:
    raw = content if isinstance(content, bytes) else content.encode()
    return lambda folder: (folder / name).write_bytes(raw)


def rows(name: str, *records: Mapping[str, Any]) -> Callable[[Path], object]:
    return file(name, "".join(f"{json.dumps(row)}\n" for row in records))


def too_large(folder: Path) -> None:
    with (folder / "large.txt").open("wb") as large:
        large.truncate(LARGEST_FILE + 1)


def page_and_picture(folder: Path) -> None:
    """One page with a text, and one with a picture."""
    writer = with_page("Hello from a page")
    add_picture(writer)
    writer.write(folder / "scan.pdf")


def with_page(text: str) -> PdfWriter:
    """A PDF of one page with this text."""
    writer = PdfWriter()
    page = writer.add_blank_page(300, 300)
    font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    names = DictionaryObject({NameObject(key): NameObject(value) for key, value in font.items()})
    fonts = DictionaryObject({NameObject("/F1"): names})
    page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    content = DecodedStreamObject()
    content.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode())
    page[NameObject("/Contents")] = writer._add_object(content)
    return writer


def add_picture(writer: PdfWriter) -> None:
    """Adds a page that is only a picture."""
    Image.new("L", (30, 30), "white").save(scan := io.BytesIO(), "PDF")
    writer.append(scan)


def garbled_page(writer: PdfWriter) -> None:
    """Adds a page whose font has glyphs and no mapping to characters."""

    def named(**names: str | DictionaryObject | ArrayObject) -> DictionaryObject:
        return DictionaryObject(
            {
                NameObject(f"/{key}"): NameObject(f"/{value}") if isinstance(value, str) else value
                for key, value in names.items()
            }
        )

    glyphs = named(Type="Font", Subtype="CIDFontType2", BaseFont="A", FontDescriptor=named(FontName="A"))
    fonts = ArrayObject([writer._add_object(glyphs)])
    font = named(Type="Font", Subtype="Type0", BaseFont="A", Encoding="Identity-H", DescendantFonts=fonts)
    page, content = writer.add_blank_page(300, 300), DecodedStreamObject()
    page[NameObject("/Resources")] = named(Font=named(F1=font))
    content.set_data(b"BT /F1 12 Tf 20 200 Td <0024002500260003002700280029> Tj ET")
    page[NameObject("/Contents")] = writer._add_object(content)


def garbled_second_page(folder: Path) -> None:
    writer = with_page("Hello from a page")
    garbled_page(writer)
    writer.write(folder / "garbled.pdf")


FILES: Mapping[NotIndexed, Callable[[Path], object]] = {
    NotIndexed.UNKNOWN_FORMAT: file("letter.odt", "PK"),
    NotIndexed.NOT_UTF8: file("latin.txt", b"caff\xe8"),
    NotIndexed.MALFORMED: file("torn.jsonl", "{torn\n"),
    NotIndexed.NO_TEXT: file("application.html", "<script>start()</script>"),
    NotIndexed.TOO_LARGE: too_large,
    NotIndexed.OVER_LIMIT: file("long.txt", "word " * 300_000),
    NotIndexed.NOT_OPENED: lambda folder: os.mkfifo(folder / "pipe.txt"),
    NotIndexed.WRONG_ID: rows("wrong.jsonl", {"id": "a\nb", "text": "The id has two lines."}),
    NotIndexed.REPEATED_ID: rows("twice.jsonl", {"id": "a", "text": "One."}, {"id": "a", "text": "Two."}),
    NotIndexed.METADATA: rows("date.jsonl", {"id": "d", "text": "It has a date.", "published_at": "soon"}),
    NotIndexed.PICTURE_PAGES: page_and_picture,
    NotIndexed.GARBLED_PAGES: garbled_second_page,
    NotIndexed.HEADINGS: file("headings.md", MANY_HEADINGS),
    NotIndexed.DIRECTIVE: file("part.rst", "It has a part.\n\n.. include:: other.rst\n"),
    NotIndexed.HIDDEN_TEXT: file("hidden.html", "<p>It has a part.</p><p hidden>Nobody sees this.</p>"),
    NotIndexed.HIDDEN: lambda folder: (folder / ".git").mkdir(),
    NotIndexed.LINK: lambda folder: (folder / "link.txt").symlink_to("good.txt"),
    NotIndexed.EMPTY: file("empty.txt", "\n"),
}
"""Writes one file, with one document, into a folder; two documents for REPEATED_ID, with `--ids given`."""

ROWS: Mapping[NotIndexed, list[Any]] = {
    NotIndexed.MALFORMED: ["no object"],
    NotIndexed.NO_TEXT: [{"id": "n"}],
    NotIndexed.TOO_LARGE: [{"id": "l", "text": "It has much metadata.", "metadata": {"much": "x" * 300_000}}],
    NotIndexed.WRONG_ID: [{"text": "It has no id."}],
    NotIndexed.METADATA: [{"id": "m", "text": "It has a date.", "published_at": "soon"}],
    NotIndexed.HEADINGS: [{"id": "h", "text": MANY_HEADINGS}],
    NotIndexed.SUPERSEDED: [{"id": "s", "text": "The first."}, {"id": "s", "text": "The last."}],
    NotIndexed.NOT_WRITTEN: [{"id": "refused", "text": "The store refuses it."}],
}
"""Documents that a program hands in; the store of the test refuses the document `refused`."""

ELSEWHERE = {NotIndexed.MISSING_PACKAGE, NotIndexed.WRONG_VALUE}
"""Cases that need another installation or pipeline, with a test of their own."""
