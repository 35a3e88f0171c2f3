"""PDF with pypdf, an optional extra; the title is the document's own, if it has one."""

from __future__ import annotations

import io
from collections.abc import Iterator

from ingest.decode import read_bytes
from ingest.raw_documents import OpenFile, ReadOptions, Record, Unreadable


def read(file: OpenFile, options: ReadOptions) -> Iterator[Record]:
    """The text layer of all pages; raises Unreadable for scans, for locked files and if pypdf is missing."""
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        raise Unreadable("PDF needs the package pypdf (the extra `pdf`): pip install pypdf") from None
    try:
        pdf = PdfReader(io.BytesIO(read_bytes(file, max_bytes=options.max_file_bytes)))
        if pdf.is_encrypted and not pdf.decrypt(""):
            raise Unreadable("locked with a password")
        text = "\n\n".join(page.extract_text() for page in pdf.pages)
        title = str((pdf.metadata and pdf.metadata.title) or "").strip()
    except PyPdfError as error:
        raise Unreadable(f"damaged: {error}") from None
    if not text.strip():
        raise Unreadable("no text in it; a scan needs OCR first")
    yield Record(text, title)
