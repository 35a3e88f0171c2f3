"""Hashes that tell whether two documents are the same: in their words, or in everything that was read."""

from __future__ import annotations

import hashlib
import json
import unicodedata

from ingest.raw_documents import RawDocument


def normalised(text: str) -> str:
    """The text in NFKC, casefolded, with single spaces; texts that look the same become equal."""
    # Casefolding can undo NFKC (for example U+0345), so NFKC is applied again.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.split())


def content_hash(title: str, text: str) -> str:
    """SHA-256 (32 hex characters) of the normalised title and text: equal for copies."""
    return _digest(normalised(title), normalised(text))


def revision_hash(document: RawDocument) -> str:
    """SHA-256 (32 hex characters) of title, text, markup and metadata; not of the path."""
    metadata = json.dumps(document.metadata, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return _digest(document.title, document.text, document.markup, metadata)


def _digest(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode()
        # The lengths keep ("ab", "c") apart from ("a", "bc").
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()[:32]
