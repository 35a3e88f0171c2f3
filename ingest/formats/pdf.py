"""PDF with pypdf, an optional extra; title, author and dates are the document's own, if it has them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ingest.clean import read_bytes
from ingest.collection_rows import properties_as_metadata
from ingest.raw_documents import Fault, OpenFile, ReadOptions, Record, Unreadable, missing_package
from models.not_indexed import NotIndexed

if TYPE_CHECKING:
    from pypdf import DocumentInformation


def read(file: OpenFile, options: ReadOptions) -> Iterator[Record | Fault]:
    """The text layer of all pages; raises Unreadable for scans, for locked files and if pypdf is missing."""
    try:
        from pypdf import DocumentInformation, PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        raise missing_package("pypdf", "PDF", "pdf") from None
    try:
        pdf = PdfReader(io.BytesIO(read_bytes(file, max_bytes=options.max_file_bytes)))
        if pdf.is_encrypted and not pdf.decrypt(""):
            raise Unreadable(NotIndexed.MALFORMED, "locked with a password")
        texts, pictures = [], []
        for number, page in enumerate(pdf.pages, start=1):
            texts.append(page.extract_text())
            if not texts[-1].strip() and "/XObject" in page.get("/Resources", {}):
                pictures.append(number)
        text = "\n\n".join(texts)
        own = pdf.metadata or DocumentInformation()
        title = str(own.title or "").strip()
        dates = {"created_at": _date(own, "creation_date"), "modified_at": _date(own, "modification_date")}
        metadata, faults = properties_as_metadata(str(own.author or ""), dates, options.fields)
    except PyPdfError as error:
        raise Unreadable(NotIndexed.MALFORMED, f"damaged: {error}") from None
    if not text.strip():
        raise Unreadable(
            NotIndexed.NO_TEXT, "scanned: no text; it needs OCR first" if pictures else "no text in it"
        )
    yield from faults
    if pictures:
        numbers = ", ".join(map(str, pictures[:10])) + (", …" if len(pictures) > 10 else "")
        yield Fault(
            NotIndexed.PICTURE_PAGES, f"pages with pictures and no text, which need OCR first: {numbers}"
        )
    yield Record(text, title, metadata)


def _date(own: DocumentInformation, name: str) -> str:
    """In ISO 8601; as it stands in the file if it has another form."""
    try:
        date = getattr(own, name)
    except ValueError:
        return str(getattr(own, f"{name}_raw"))
    return date.isoformat() if date else ""
