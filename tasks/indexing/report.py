"""The results for documents that were indexed or deleted.

The one report of the service.  On the wire it is the outcome of a message, which `chorale_client.indexed.Indexed` reads
for callers, who know no `Skipped`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ingest.raw_documents import Skipped
from models.left_out import LeftOut

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
    gone: int = 0
    """Documents of earlier runs that are not in the source any more, and were not deleted."""
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

    @property
    def reasons(self) -> dict[str, int]:
        """How much was left out, by reason."""
        counts = Counter(one.reason for one in self.skipped)
        return {reason.value: counts[reason] for reason in LeftOut if counts[reason]}

    def to_wire(self) -> dict[str, Any]:
        """JSON: the outcome of a message."""
        return {
            "generation": self.generation,
            **{name: getattr(self, name) for name in _COUNTS},
            "skipped": [str(one) for one in self.skipped],
            "reasons": self.reasons,
            "left_out": [skipped_to_wire(one) for one in self.skipped],
            "unwritten": self.unwritten,
        }

    def add(self, outcome: Mapping[str, Any]) -> None:
        """Add the outcome of one message, as `to_wire` gave it.  Its passages are counted as well."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + outcome[name])
        # A worker of an earlier version gives no reason.
        self.skipped += [
            Skipped(one["path"], LeftOut(one.get("reason", LeftOut.MALFORMED)), one["why"], one["line"])
            for one in outcome["left_out"]
        ]
        self.unwritten |= outcome["unwritten"]
        self.generation = max(self.generation, outcome["generation"])


def skipped_to_wire(one: Skipped) -> dict[str, Any]:
    """JSON."""
    return {name: getattr(one, name) for name in ("path", "line", "reason", "why", "is_fault")}
