"""Document ids, which every store accepts and which do not depend on the working directory, and hashes that tell whether two documents
are the same."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from pathlib import Path

from ingest.raw_documents import RawDocument

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


def record_id(file: str, own_id: str | None, line: int | None) -> str:
    """`<file's id>#<own id>`, or `<file's id>#line-<n>` for a record without an id."""
    return f"{file}#{own_id if own_id is not None else f'line-{line}'}"


def normalised(text: str) -> str:
    """The text in NFKC, casefolded, with single spaces; texts that look the same become equal."""
    # Casefolding can undo NFKC (for example U+0345), so NFKC is applied again.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.split())


def content_hash(title: str, text: str) -> str:
    """SHA-256 (32 hex characters) of the normalised title and text: equal for copies."""
    return _digest(normalised(title), normalised(text))


def revision_hash(document: RawDocument) -> str:
    """SHA-256 (32 hex characters) of title, text, markup, metadata and pages; not of the path."""
    metadata = json.dumps(document.metadata, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    pages = [json.dumps([*document.page_starts])] if document.page_starts else []
    return _digest(document.title, document.text, document.markup, metadata, *pages)


def _digest(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode()
        # The lengths keep ("ab", "c") apart from ("a", "bc").
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()[:32]
