"""The outcome of handed-in documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

NOT_WRITTEN = "not written"
"""Begins the reason of a skipped document that a store refused; the store's own words follow."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """The outcome of one `upsert` or `delete`.  Documents that are not in `skipped` or `unwritten` can be found."""

    namespace: str
    generation: int = 0
    """Generation of the corpus: a search of this generation or a later one sees the documents."""
    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    deleted: int = 0
    passages: int = 0
    """Number of passages that were embedded."""
    skipped: list[str] = field(default_factory=list)
    """What was left out, each with its reason: documents, and parts of documents that are indexed without them."""
    reasons: dict[str, int] = field(default_factory=dict)
    """How many of `skipped` by reason; the reasons are listed in docs/reference/wire.md."""
    unwritten: dict[str, str] = field(default_factory=dict)
    """Key: document id; value: why the document is not in every store yet.  It is kept and written again."""
    error: str | None = None
    """Why nothing was done; None if something was."""

    @property
    def is_whole(self) -> bool:
        """Whether every store shows every document."""
        return self.error is None and not self.skipped and not self.unwritten

    @classmethod
    def from_wire(cls, told: Mapping[str, Any]) -> Indexed:
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in told.items() if name in known})
