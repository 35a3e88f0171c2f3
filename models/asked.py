"""What a branch has searched with, so that the fusion can score passages that only other branches found."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from models.documents import Vector


@dataclass(frozen=True, slots=True)
class Asked:
    """Either texts or vectors."""

    texts: Mapping[str, float] = field(default_factory=dict)
    """A passage's score is the sum of its BM25 scores for these texts, each times its factor."""
    vectors: tuple[bytes, ...] = ()
    """Little-endian float32, normalised; a passage's score is its best cosine."""

    @classmethod
    def by_vectors(cls, rows: Iterable[Vector]) -> Asked:
        return cls(vectors=tuple(row.astype("<f4").tobytes() for row in rows))

    def to_wire(self) -> dict[str, Any]:
        if self.texts:
            return {"texts": dict(self.texts)}
        return {"vectors": [b64encode(row).decode() for row in self.vectors]}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Asked:
        texts = {str(text): float(factor) for text, factor in wire.get("texts", {}).items()}
        return cls(texts, tuple(b64decode(row) for row in wire.get("vectors", ())))
