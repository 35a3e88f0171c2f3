"""PDF with PDFium, an optional extra; title, author and dates are the document's own, if it has them."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from ingest.clean import clean_text, read_bytes
from ingest.collection_rows import properties_as_metadata
from ingest.raw_documents import Fault, OpenFile, ReadOptions, Record, Unreadable, missing_package
from models.not_indexed import NotIndexed

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfPage, PdfTextPage

_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:Z.*|([+-]\d\d)'?(\d\d)?'?)?")
_AT_A_LINE_END = "\ufffe"
"""What PDFium has in the place of a hyphen at a line end and of the line end."""
_CUT_WORD = re.compile(rf"\b(\w++)(?<=[^\W\d_]){_AT_A_LINE_END}([^\W\d_]\w*)")
_BEHIND_LIGATURE = re.compile(r"(?<=f[fijlt]|Th|t[ti]) (?=\w)")
_APART = re.compile(r"((?<=[^\W\d_]{2})[´`]|(?<=[^\W\d_])[¨ˆ˜ˇ])([aeiouAEIOU])")
"""A letter with its accent before it, as LaTeX draws both.  An acute accent behind one letter may be an apostrophe: `l´eau`."""
_ACCENTS = dict(zip("´`¨ˆ˜ˇ", "\u0301\u0300\u0308\u0302\u0303\u030c", strict=True))
_MOST_UNMAPPED = 0.1
_FREE_PAGES, _LEAST_BYTES = 1_000, 20
"""Beyond the free pages, a page takes at least these bytes of the file; the same page may stand in its tree in six."""
_PAGE_BREAK, _BETWEEN_PAGES = "\f", "\n\n"
_PASSWORD_FIELD = 1 << 13
"""The flag of a field whose value nobody sees."""
_NOT_SET = ("", "Off")


def read(file: OpenFile, options: ReadOptions) -> Iterator[Record | Fault]:
    """The text layer and the form fields of all pages; raises Unreadable for scans and locked files, and without PDFium."""
    try:
        from pypdfium2 import PdfDocument, PdfiumError
        from pypdfium2.raw import FPDF_ERR_PASSWORD
    except ImportError:
        raise missing_package("pypdfium2", "PDF", "pdf") from None
    texts: list[str] = []
    unread_pages: dict[NotIndexed, list[int]] = {NotIndexed.PICTURE_PAGES: [], NotIndexed.GARBLED_PAGES: []}
    try:
        raw = read_bytes(file, max_bytes=options.max_file_bytes)
        pdf = PdfDocument(raw)
        if len(pdf) > max(_FREE_PAGES, len(raw) // _LEAST_BYTES):
            why = f"it claims {len(pdf):,} pages in {len(raw):,} bytes"
            raise Unreadable(NotIndexed.OVER_LIMIT, why)
        pdf.init_forms()
        for number in range(len(pdf)):
            text, reason = _page(pdf, pdf[number])
            texts.append(text.replace(_PAGE_BREAK, " "))
            if reason is not None:
                unread_pages[reason].append(number + 1)
        own = pdf.get_metadata_dict()
    except PdfiumError as error:
        locked = error.err_code == FPDF_ERR_PASSWORD
        raise Unreadable(
            NotIndexed.MALFORMED, "locked with a password" if locked else f"damaged: {error}"
        ) from None
    pages = [clean_text(text) for text in _without_cuts(_PAGE_BREAK.join(texts)).split(_PAGE_BREAK)]
    starts = [0, *accumulate(len(text) + len(_BETWEEN_PAGES) for text in pages[:-1])]
    text = _BETWEEN_PAGES.join(pages)
    if not text.strip():
        raise Unreadable(NotIndexed.NO_TEXT, _why_no_text(unread_pages))
    dates = {"created_at": _date(own["CreationDate"]), "modified_at": _date(own["ModDate"])}
    metadata, faults = properties_as_metadata(own["Author"], dates, options.fields)
    yield from faults
    for reason, named in unread_pages.items():
        if named:
            numbers = ", ".join(map(str, named[:10])) + (", …" if len(named) > 10 else "")
            yield Fault(reason, f"{_WHY[reason]}: {numbers}")
    yield Record(text, own["Title"], metadata, page_starts=starts)


_WHY = {
    NotIndexed.PICTURE_PAGES: "pages with pictures and no text, which need OCR first",
    NotIndexed.GARBLED_PAGES: "pages whose fonts do not say which characters they show, which need OCR first",
}


def _why_no_text(unread_pages: dict[NotIndexed, list[int]]) -> str:
    if unread_pages[NotIndexed.GARBLED_PAGES]:
        return "its fonts do not say which characters they show; it needs OCR first"
    return (
        "scanned: no text; it needs OCR first" if unread_pages[NotIndexed.PICTURE_PAGES] else "no text in it"
    )


def _page(pdf: PdfDocument, page: PdfPage) -> tuple[str, NotIndexed | None]:
    """The text of a page, and why it is left out."""
    from pypdfium2.raw import FPDF_PAGEOBJ_IMAGE

    content = page.get_textpage()
    text, is_garbled = _without_unseen_spaces(content), _is_garbled(content)
    content.close()
    written = "\n".join(dict.fromkeys(_written(pdf, page)))
    has_picture = not text.strip() and any(page.get_objects(filter=[FPDF_PAGEOBJ_IMAGE]))
    page.close()
    if is_garbled:
        return written, NotIndexed.GARBLED_PAGES
    return "\n".join(filter(None, (text, written))), NotIndexed.PICTURE_PAGES if has_picture else None


def _without_unseen_spaces(content: PdfTextPage) -> str:
    """The text of a page.  Some programs write a space behind a ligature and draw both in the same place: `fi elds`."""
    from pypdfium2.raw import FPDFText_GetCharIndexFromTextIndex

    text = content.get_text_range()
    parts, start = list[str](), 0
    for match in _BEHIND_LIGATURE.finditer(text):
        space: int = FPDFText_GetCharIndexFromTextIndex(content, match.start())
        if space > 0 and content.get_charbox(space)[2] <= content.get_charbox(space - 1)[2]:
            parts.append(text[start : match.start()])
            start = match.end()
    return "".join([*parts, text[start:]])


def _is_garbled(content: PdfTextPage) -> bool:
    from pypdfium2.raw import FPDFText_HasUnicodeMapError

    count: int = content.count_chars()
    unmapped: int = sum(FPDFText_HasUnicodeMapError(content, at) == 1 for at in range(count))
    return unmapped > _MOST_UNMAPPED * count


def _written(pdf: PdfDocument, page: PdfPage) -> Iterator[str]:
    """The lines that people added: `name: value` for each visible field, and the texts of notes on the page."""
    import pypdfium2.raw as pdfium

    for number in range(pdfium.FPDFPage_GetAnnotCount(page)):
        annotation = pdfium.FPDFPage_GetAnnot(page, number)
        if not pdfium.FPDFAnnot_GetFlags(annotation) & (
            pdfium.FPDF_ANNOT_FLAG_HIDDEN | pdfium.FPDF_ANNOT_FLAG_NOVIEW
        ):
            kind = pdfium.FPDFAnnot_GetSubtype(annotation)
            if kind == pdfium.FPDF_ANNOT_FREETEXT:
                yield _string(pdfium.FPDFAnnot_GetStringValue, annotation, b"Contents")
            elif kind == pdfium.FPDF_ANNOT_WIDGET and pdf.formenv is not None:
                field = (pdf.formenv, annotation)
                value = _string(pdfium.FPDFAnnot_GetFormFieldValue, *field)
                is_secret = pdfium.FPDFAnnot_GetFormFieldFlags(*field) & _PASSWORD_FIELD
                if value not in _NOT_SET and not is_secret:
                    name = _string(pdfium.FPDFAnnot_GetFormFieldAlternateName, *field)
                    name = name or _string(pdfium.FPDFAnnot_GetFormFieldName, *field).rpartition(".")[2]
                    yield f"{name}: {_chosen(field) or value}"
        pdfium.FPDFPage_CloseAnnot(annotation)


def _chosen(field: tuple[Any, Any]) -> str:
    """The labels of the chosen options of a list, which people see in the place of its values."""
    import pypdfium2.raw as pdfium

    options = range(pdfium.FPDFAnnot_GetOptionCount(*field))
    chosen = [option for option in options if pdfium.FPDFAnnot_IsOptionSelected(*field, option)]
    return ", ".join(_string(pdfium.FPDFAnnot_GetOptionLabel, *field, option) for option in chosen)


def _string(read: Any, *of: Any) -> str:
    """The text that a function of PDFium writes into the buffer that it is given."""
    from pypdfium2.raw import FPDF_WCHAR

    size = read(*of, None, 0)
    buffer = ctypes.create_string_buffer(size)
    read(*of, ctypes.cast(buffer, ctypes.POINTER(FPDF_WCHAR)), size)
    return buffer.raw.decode("utf-16-le", "replace").rstrip("\0").strip()


def _without_cuts(text: str) -> str:
    """Words that were cut at a line end or an accent are whole; a compound that the text has elsewhere with its hyphen keeps the hyphen."""
    words = {*re.findall(r"\b\w++-\w+", text)}

    def whole(cut: re.Match[str]) -> str:
        compound = f"{cut[1]}-{cut[2]}"
        return cut[1] + cut[2] if cut[2][0].islower() and compound not in words else compound

    text = _CUT_WORD.sub(whole, text).replace(_AT_A_LINE_END, "-")
    return _APART.sub(lambda match: normalize("NFC", match[2] + _ACCENTS[match[1]]), text)


def _date(date: str) -> str:
    """In ISO 8601; as it stands in the file if it has another form."""
    if not (parts := _DATE.fullmatch(date.strip())):
        return date
    year, month, day, hour, minute, second, zone, zone_minute = parts.groups()
    moment = f"{year}-{month or '01'}-{day or '01'}"
    if hour:
        moment += f"T{hour}:{minute or '00'}:{second or '00'}"
        moment += f"{zone}:{zone_minute or '00'}" if zone else "+00:00" if "Z" in date else ""
    return moment
