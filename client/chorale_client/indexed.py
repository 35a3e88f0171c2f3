"""What became of documents that were handed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Indexed:
    """The end of one `upsert` or `delete`: what is not named here as skipped or unwritten can be found."""

    namespace: str
    generation: int = 0
    """Of the corpus: a search that saw this one, or a later one, saw the documents."""
    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    deleted: int = 0
    passages: int = 0
    """Embedded for it."""
    skipped: list[str] = field(default_factory=list)
    """What was left out, each with its reason."""
    unwritten: dict[str, str] = field(default_factory=dict)
    """Why documents are not in every store yet, by their ids; they are kept, and written again."""
    error: str | None = None
    """Why nothing was done."""

    @property
    def is_whole(self) -> bool:
        """Every store shows all of it."""
        return self.error is None and not self.skipped and not self.unwritten

    @classmethod
    def from_wire(cls, told: Mapping[str, Any]) -> Indexed:
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in told.items() if name in known})
