"""PDF with pypdf, an optional extra; the title is the document's own, if it has one."""

from __future__ import annotations

import io
from collections.abc import Iterator

from ingest.decode import read_bytes
from ingest.raw_documents import Fault, OpenFile, ReadOptions, Record, Unreadable
from models.left_out import LeftOut


def read(file: OpenFile, options: ReadOptions) -> Iterator[Record | Fault]:
    """The text layer of all pages; raises Unreadable for scans, for locked files and if pypdf is missing."""
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        why = "PDF needs the package pypdf (the extra `pdf`): pip install pypdf"
        raise Unreadable(LeftOut.MISSING_PACKAGE, why) from None
    try:
        pdf = PdfReader(io.BytesIO(read_bytes(file, max_bytes=options.max_file_bytes)))
        if pdf.is_encrypted and not pdf.decrypt(""):
            raise Unreadable(LeftOut.MALFORMED, "locked with a password")
        texts, pictures = [], []
        for number, page in enumerate(pdf.pages, start=1):
            texts.append(page.extract_text())
            if not texts[-1].strip() and "/XObject" in page.get("/Resources", {}):
                pictures.append(number)
        text = "\n\n".join(texts)
        title = str((pdf.metadata and pdf.metadata.title) or "").strip()
    except PyPdfError as error:
        raise Unreadable(LeftOut.MALFORMED, f"damaged: {error}") from None
    if not text.strip():
        raise Unreadable(LeftOut.NO_TEXT, "no text in it; a scan needs OCR first")
    if pictures:
        numbers = ", ".join(map(str, pictures[:10])) + (", …" if len(pictures) > 10 else "")
        yield Fault(
            LeftOut.PICTURE_PAGES, f"pages with pictures and no text, which need OCR first: {numbers}"
        )
    yield Record(text, title)
