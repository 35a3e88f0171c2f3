"""Bytes to text: UTF-8 with or without a byte order mark; other encodings are refused by name."""

from __future__ import annotations

import codecs

from ingest.raw_documents import OpenFile, Unreadable
from models.left_out import LeftOut

_OTHER_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


def read_bytes(file: OpenFile, *, max_bytes: int) -> bytes:
    """The whole file; raises Unreadable if it is larger than `max_bytes`, without reading the rest."""
    raw = file.read(max_bytes + 1)
    if len(raw) > max_bytes:
        raise Unreadable(LeftOut.TOO_LARGE, f"larger than {max_bytes:,} bytes")
    return raw


def read_text(file: OpenFile, *, max_bytes: int) -> str:
    """The whole file; raises Unreadable also for binary data and for other encodings."""
    raw = read_bytes(file, max_bytes=max_bytes)
    refuse_binary(raw)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise Unreadable(
            LeftOut.NOT_UTF8, f"not UTF-8: byte 0x{raw[error.start]:02x} in line {line}; save it as UTF-8"
        ) from None


def refuse_binary(raw: bytes) -> None:
    """Raise Unreadable if a file that begins with `raw` is UTF-16, UTF-32 or binary."""
    for mark, name in _OTHER_MARKS.items():
        if raw.startswith(mark):
            raise Unreadable(LeftOut.NOT_UTF8, f"encoded as {name}; save it as UTF-8")
    if b"\x00" in raw:
        raise Unreadable(LeftOut.NOT_UTF8, "binary: it holds NUL bytes")
