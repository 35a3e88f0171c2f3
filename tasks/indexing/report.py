"""The results for documents that were indexed or deleted.

The one report of the service.  On the wire it is the outcome of a message, which `chorale_client.indexed.Indexed` reads
for callers, who know no `Skipped`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ingest.raw_documents import Skipped

_COUNTS = ("added", "replaced", "unchanged", "deleted", "passages")


@dataclass(slots=True)
class IndexReport:
    """The results for the documents of one run, or of one message."""

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    deleted: int = 0
    spared: int = 0
    """Known documents that were neither read nor deleted, since their file could not be read."""
    skipped: list[Skipped] = field(default_factory=list)
    unwritten: dict[str, str] = field(default_factory=dict)
    """Why documents are not in every store, by document id."""
    passages: int = 0
    """Embedded in this run."""
    generation: int = 0
    """The corpus generation at the end."""
    looked_at: set[str] = field(default_factory=set)
    """Ids of the documents that were read, changed or not, and of those that were pruned."""

    @property
    def has_faults(self) -> bool:
        """Whether documents could not be read or written that should have been (exit code 8)."""
        return bool(self.unwritten) or any(skipped.is_fault for skipped in self.skipped)

    def to_wire(self) -> dict[str, Any]:
        """JSON: the outcome of a message."""
        return {
            "generation": self.generation,
            **{name: getattr(self, name) for name in _COUNTS},
            "skipped": [str(one) for one in self.skipped],
            "left_out": [skipped_to_wire(one) for one in self.skipped],
            "unwritten": self.unwritten,
        }

    def add(self, outcome: Mapping[str, Any]) -> None:
        """Add the outcome of one message, as `to_wire` gave it.  Its passages are counted as well."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + outcome[name])
        self.skipped += [
            Skipped(one["path"], one["why"], one["line"], is_fault=one["is_fault"])
            for one in outcome["left_out"]
        ]
        self.unwritten |= outcome["unwritten"]
        self.generation = max(self.generation, outcome["generation"])


def skipped_to_wire(one: Skipped) -> dict[str, Any]:
    """JSON."""
    return {"path": one.path, "line": one.line, "why": one.why, "is_fault": one.is_fault}
