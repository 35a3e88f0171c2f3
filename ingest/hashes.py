"""When two documents are the same: by their words, or by everything that was read."""

from __future__ import annotations

import hashlib
import json
import unicodedata

from ingest.raw_documents import RawDocument


def normalised(text: str) -> str:
    """NFKC, casefolded, white space single: what is left when nobody would see a difference."""
    # Casefolding can undo NFKC (U+0345 is one case), so it is applied again.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.split())


def content_hash(title: str, text: str) -> str:
    """SHA-256 (32 hex characters) of the normalised title and text: equal for copies."""
    return _digest(normalised(title), normalised(text))


def revision_hash(document: RawDocument) -> str:
    """SHA-256 (32 hex characters) of everything that was read, metadata too; not of where it stood."""
    metadata = json.dumps(document.metadata, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return _digest(document.title, document.text, document.markup, metadata)


def _digest(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode()
        # The lengths keep ("ab", "c") apart from ("a", "bc").
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()[:32]
