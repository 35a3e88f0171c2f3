"""Documents, their passages, groups of near-duplicates, and the manifest of a namespace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Named, since numpy takes .2 s to import, which commands do without.
Vector: TypeAlias = "NDArray[np.float32]"
"""Shape (d,)."""
Matrix: TypeAlias = "NDArray[np.float32]"
"""Shape (n, d), C-contiguous."""

Signature: TypeAlias = "NDArray[np.uint32]"
"""The signature of a text by `ingest.near_duplicates`."""

RESERVED_METADATA = ("source_type", "published_at", "language", "url", "parent")
"""Metadata names with a fixed meaning; a mapping says which fields of a file they come from."""
MAX_METADATA_DEPTH = 16
"""Maximum nesting of lists and objects."""


@dataclass(frozen=True, slots=True)
class Passage:
    """The part of a document that is searched."""

    passage_id: str
    """`<document_id>#<position>`."""
    position: int
    text: str
    heading: str = ""
    """The path of headings above it: "Install > On Linux"."""
    start: int = 0
    """Offset of `text` in the document's text, in characters."""
    end: int = 0
    vector: Vector | None = None
    """A vector of unit length; None before the passage is embedded."""
    pages: str = ""
    """The pages of a PDF that it is on, counted from 1: `3`, or `3-4`."""


@dataclass(frozen=True, slots=True)
class Document:
    """An indexed document with its passages."""

    document_id: str
    """The source's name and the path inside the source; independent of the working directory."""
    source: str
    title: str
    passages: tuple[Passage, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON values; the names of RESERVED_METADATA have a meaning."""
    content_hash: str = ""
    """SHA-256 (hex, 32 characters) of the normalised title and text: equal for exact copies."""
    near_duplicate_group: str | None = None
    """The name of its group of near-duplicates; None if it has none or began the group."""
    revision: str = ""
    """SHA-256 (hex, 32 characters) of everything that was read, with metadata; an unchanged document is skipped."""


@dataclass(frozen=True, slots=True)
class PassageText:
    """The part of a passage that answers show."""

    passage_id: str
    document_id: str
    title: str = ""
    heading: str = ""
    text: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    pages: str = ""
    """The pages of a PDF that it is on, counted from 1: `3`, or `3-4`."""

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> PassageText:
        return cls(**{field.name: wire[field.name] for field in fields(cls) if field.name in wire})


@dataclass(frozen=True, slots=True)
class Manifest:
    """How a namespace was built.  On a mismatch, indexing is refused; the error names the command that helps."""

    splitter: str
    """Name, version and size limit."""
    language: str
    """Language of the lexical analyser: `en`, `it`, `none`, …"""
    analyser: str
    """Name and version of the analyser chain."""
    embedder: str
    """Fingerprint of weights, precision, prompts and pooling."""
    dimension: int
    title_repeats: str = "auto"
    known_words: float | None = None
    """The share of the first documents' words that the embedder knows (`ingest.language_fit`); None if it was not measured.  It
    describes the documents, so it may differ between builds."""
    encoder: str = "default"
    """The declared encoder that embeds documents and questions."""
    local_only: bool = False
    """No text of the namespace is sent to a model behind an address."""
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)
    """Of a namespace with several encoders, by encoder: the fingerprint of its model (`embedder`), and where its part of each vector
    begins and ends (`start`, `end`).  `encoder` is then the first one, and `embedder` and `dimension` are those of the whole."""
    probe: Sequence[float] | None = field(default=None, compare=False)
    """Of an encoder behind an address: the cosines of three fixed sentences, by which another model under its name is noticed."""
    stores: Sequence[str] = field(default=(), compare=False)
    """The stores that have a moved namespace.  Empty: every store into which documents are indexed has it."""

    @property
    def embedders(self) -> Mapping[str, str]:
        """By encoder, the fingerprint of its model."""
        return {name: part["embedder"] for name, part in self.parts.items()} or {self.encoder: self.embedder}

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> Manifest:
        """Ignores what another version stored beside the fields."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in stored.items() if name in known})


@dataclass(frozen=True, slots=True)
class NamespaceState:
    name: str
    documents: int
    passages: int
    generation: int
    manifest: Manifest | None


@dataclass(slots=True)
class NearDuplicateGroup:
    """Documents that are near-duplicates of one text, the first of the group."""

    group_id: int
    name: str
    """The id of the document that began the group, with `~2`, `~3`, … where an earlier group still has that name."""
    signature: Signature
    """Signature of the first text."""
    bands: frozenset[int]
    """Hashes of the parts of the signature; near-duplicates have at least one in common."""
    members: int
