"""What is indexed: documents, their passages, and the manifest of a namespace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
"""Shape (d,)."""
Matrix = NDArray[np.float32]
"""Shape (n, d), C-contiguous."""

RESERVED_METADATA = ("source_type", "published_at", "language", "url", "parent")
"""Metadata names with a meaning of their own; a mapping says which fields of a file they come from."""
MAX_METADATA_DEPTH = 16
"""So many lists and objects may lie in each other."""


@dataclass(frozen=True, slots=True)
class Passage:
    """The part of a document that is searched."""

    passage_id: str
    """`<document_id>#<position>`."""
    position: int
    text: str
    """As it stands in the document."""
    heading: str = ""
    """The heading path above it, "Install > On Linux"."""
    start: int = 0
    """Offset of `text` in the document's text, in characters."""
    end: int = 0
    vector: Vector | None = None
    """Normalised; None before it is embedded."""


@dataclass(frozen=True, slots=True)
class Document:
    """One thing that was indexed, with its passages."""

    document_id: str
    """The source's name and the path inside it: it does not change with the working directory."""
    source: str
    title: str
    passages: tuple[Passage, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON values; the names of RESERVED_METADATA have a meaning."""
    content_hash: str = ""
    """SHA-256 (hex, 32 characters) of the normalised title and text: equal for exact copies."""
    near_duplicate_group: str | None = None
    """The document id of the first of its near-duplicates; None if it has none."""
    revision: str = ""
    """SHA-256 (hex, 32 characters) of everything that was read, metadata too: unchanged means skip."""


@dataclass(frozen=True, slots=True)
class PassageText:
    """What the answer shows of a passage."""

    passage_id: str
    document_id: str
    title: str
    heading: str
    text: str
    metadata: Mapping[str, Any]

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> PassageText:
        return cls(
            wire["passage_id"],
            wire["document_id"],
            wire.get("title", ""),
            wire.get("heading", ""),
            wire.get("text", ""),
            wire.get("metadata", {}),
        )


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a namespace was built with; a mismatch is refused with the command that mends it."""

    splitter: str
    """Name, version and size limit."""
    language: str
    """Of the lexical analyser: `en`, `it`, `none`, ..."""
    analyser: str
    """Name and version of the analyser chain."""
    embedder: str
    """Fingerprint of weights, precision, prompts and pooling."""
    dimension: int
    title_repeats: str = "auto"
    format_version: int = 1


@dataclass(frozen=True, slots=True)
class NamespaceState:
    name: str
    documents: int
    passages: int
    generation: int
    manifest: Manifest | None
