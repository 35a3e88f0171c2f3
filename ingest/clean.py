"""Bytes to clean text: decoding, and what stores and tokenizers cannot handle."""

from __future__ import annotations

import codecs
import math
import re
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ingest.raw_documents import OpenFile, Record, Unreadable
from models.documents import MAX_METADATA_DEPTH
from models.not_indexed import NotIndexed

_OTHER_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_WIDER = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "tis-620": "cp874",
}
"""The encoding that browsers read (WHATWG), with the signs that Windows added, by Python's name of the declared one."""


def read_bytes(file: OpenFile, *, max_bytes: int) -> bytes:
    """The whole file; raises Unreadable if it is larger than `max_bytes`, without reading the rest."""
    raw = file.read(max_bytes + 1)
    if len(raw) > max_bytes:
        raise Unreadable(NotIndexed.TOO_LARGE, f"larger than {max_bytes:,} bytes")
    return raw


def read_text(file: OpenFile, *, max_bytes: int) -> str:
    """The whole file; raises Unreadable also for binary data and for other encodings."""
    return decoded(read_bytes(file, max_bytes=max_bytes))


def decoded(raw: bytes, declared: str = "") -> str:
    """UTF-8, else the encoding that the file itself declares; there, a byte order mark stands before both.

    Raises Unreadable for binary data, and for a text in neither encoding.
    """
    mark = next((name for mark, name in _OTHER_MARKS.items() if declared and raw.startswith(mark)), "")
    if not mark:
        refuse_binary(raw)
    # A text in seven bits (ISO-2022-JP) could also be UTF-8.
    if mark or b"\x1b" in raw:
        with suppress(LookupError, UnicodeDecodeError):
            return raw.decode(mark or declared)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        with suppress(LookupError, UnicodeDecodeError):
            return raw.decode(_WIDER.get(codecs.lookup(declared).name, declared))
        line = raw.count(b"\n", 0, error.start) + 1
        raise Unreadable(
            NotIndexed.NOT_UTF8, f"not UTF-8: byte 0x{raw[error.start]:02x} in line {line}; save it as UTF-8"
        ) from None


def refuse_binary(raw: bytes) -> None:
    """Raise Unreadable if a file that begins with `raw` is UTF-16, UTF-32 or binary."""
    for mark, name in _OTHER_MARKS.items():
        if raw.startswith(mark):
            raise Unreadable(NotIndexed.NOT_UTF8, f"encoded as {name}; save it as UTF-8")
    if b"\x00" in raw:
        raise Unreadable(NotIndexed.NOT_UTF8, "binary: it holds NUL bytes")


MAX_TITLE_CHARACTERS = 300

_NEWLINES = re.compile(r"\r\n?|\x85|\u2028|\u2029")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def cleaned(record: Record) -> Record:
    """The record with clean title and text.  A long title is also put into the text, so that all of it can be found.

    A row without a text has its title as text.
    """
    title, text = clean_line(record.title), clean_text(record.text)
    pages = record.page_starts
    if not text.strip():
        text = "" if record.line is None else title
    if len(title) > MAX_TITLE_CHARACTERS:
        if text and not text.startswith(title):
            text = f"{title}\n\n{text}"
            pages = [start + len(title) + 2 for start in pages]
        title = title[: MAX_TITLE_CHARACTERS - 1].rstrip() + "…"
    return replace(record, title=title, text=text, page_starts=pages)


def clean_text(text: str) -> str:
    """Newlines become `\\n`, control characters spaces, lone surrogates U+FFFD; the byte order mark is removed."""
    text = _NEWLINES.sub("\n", text.removeprefix("\ufeff"))
    return _SURROGATES.sub("\ufffd", _CONTROL.sub(" ", text))


def clean_line(text: str) -> str:
    """`clean_text` on one line, with single spaces."""
    return " ".join(clean_text(text).split())


def clean_value(value: Any, *, depth: int = 0) -> Any:
    """A JSON value with its texts cleaned; raises ValueError for a value that JSON cannot represent."""
    if depth > MAX_METADATA_DEPTH:
        raise ValueError(f"nested deeper than {MAX_METADATA_DEPTH} levels")
    match value:
        case None | bool() | int():
            return value
        case float():
            if not math.isfinite(value):
                raise ValueError(f"{value} is not a JSON number")
            return value
        case str():
            return clean_text(value)
        case list() | tuple():
            return [clean_value(item, depth=depth + 1) for item in value]
        case dict():
            return {clean_line(str(key)): clean_value(item, depth=depth + 1) for key, item in value.items()}
    raise ValueError(f"{type(value).__name__} is not a JSON value")
