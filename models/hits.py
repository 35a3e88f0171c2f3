"""A hit, and the ranking that one branch answers for one question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage in a ranking, with the few fields that fusion needs and never its text."""

    passage_id: str
    document_id: str
    score: float
    """On the branch's own scale."""
    source_type: str | None = None
    published_at: str | None = None
    """ISO 8601."""
    content_hash: str | None = None
    near_duplicate_group: str | None = None


_WIDTH = len(fields(Hit))


@dataclass(frozen=True, slots=True)
class Ranking:
    """Hits, best first; the rank of `hits[0]` is 1."""

    hits: tuple[Hit, ...] = ()
    total_matches: int | None = None
    """How many documents matched in all, where the store knows."""
    warnings: tuple[str, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """Hits as rows without field names: they are the bulk of an envelope."""
        rows = [
            [
                hit.passage_id,
                hit.document_id,
                hit.score,
                hit.source_type,
                hit.published_at,
                hit.content_hash,
                hit.near_duplicate_group,
            ]
            for hit in self.hits
        ]
        wire: dict[str, Any] = {"hits": rows}
        if self.total_matches is not None:
            wire["total_matches"] = self.total_matches
        if self.warnings:
            wire["warnings"] = list(self.warnings)
        return wire

    @classmethod
    def from_wire(cls, wire: dict[str, Any]) -> Ranking:
        """Read tolerantly: columns that a newer version added are left out."""
        rows: Sequence[Sequence[Any]] = wire["hits"]
        return cls(
            hits=tuple(Hit(*row[:_WIDTH]) for row in rows),
            total_matches=wire.get("total_matches"),
            warnings=tuple(wire.get("warnings", ())),
        )
