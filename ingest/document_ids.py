"""Document ids; they do not depend on the working directory, and every store accepts them."""

from __future__ import annotations

import unicodedata
from pathlib import Path

MAX_ID_BYTES = 480
"""Maximum UTF-8 bytes: Elasticsearch accepts ids of 512 bytes, and passages add their position."""


def default_source(path: Path) -> str:
    """The name of the given folder or file; raises ValueError if it has no usable name."""
    named = path.name not in ("", "..")
    return checked_source(path.name if named else path.resolve().name)


def checked_source(source: str) -> str:
    """The name in NFC; raises ValueError if it is empty, has a slash or does not fit an id."""
    if "/" in source or not source.strip():
        raise ValueError(f"source: {source!r} is not a valid name: it is empty or contains a slash")
    return checked_id(source.strip())


def checked_id(text: str) -> str:
    """The id in NFC, without surrounding white space; raises ValueError if a store would not accept it."""
    document_id = unicodedata.normalize("NFC", text.strip())
    if not document_id:
        raise ValueError("the id is empty")
    # Cc: control characters; Cs: surrogates, with which Python represents file names that are not UTF-8.
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in document_id):
        raise ValueError(f"the id {document_id[:60]!a} contains control characters or is not UTF-8")
    if (size := len(document_id.encode())) > MAX_ID_BYTES:
        raise ValueError(
            f"the id {document_id[:60]!a}... has {size} bytes; at most {MAX_ID_BYTES} are allowed"
        )
    return document_id


def file_id(source: str, inside: str) -> str:
    """`<source>/<path inside the source>` in NFC, or `<source>` if the file is itself the source."""
    return unicodedata.normalize("NFC", f"{source}/{inside}" if inside else source)


def record_id(file: str, given_id: str | None, line: int | None) -> str:
    """`<file's id>#<given id>`, or `<file's id>#line-<n>` for a record without an id."""
    return f"{file}#{given_id if given_id is not None else f'line-{line}'}"
