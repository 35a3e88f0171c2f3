"""Where documents stand in two rankings, and what each branch did for them there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chorale_client import answer
from chorale_client.answer import Hit

from fusion.fused_hits import BranchScore, FusedHit

RankedHit = FusedHit | Hit
"""As fusion makes it, and as an answer has it."""
BranchPart = BranchScore | answer.BranchScore
"""A branch's part in the score of a hit."""


@dataclass(frozen=True, slots=True)
class Place:
    """A document in one ranking."""

    rank: int
    score: float
    branches: Mapping[str, BranchPart]
    """Key: branch name; empty if the answer has no explanation."""

    def to_wire(self) -> dict[str, Any]:
        parts = {
            name: {"rank": part.rank, "score": part.score, "contribution": part.contribution}
            for name, part in self.branches.items()
        }
        return {"rank": self.rank, "score": self.score, "branches": parts}


@dataclass(frozen=True, slots=True)
class Movement:
    """A document in two rankings; None: it is not in this one."""

    document_id: str
    """The passage's id where passages were fused."""
    before: Place | None
    after: Place | None

    @property
    def is_none(self) -> bool:
        """Whether rank and score are the same in both."""
        if self.before is None or self.after is None:
            return self.before is self.after
        return (self.before.rank, self.before.score) == (self.after.rank, self.after.score)

    def to_wire(self) -> dict[str, Any]:
        return {
            "document_id": self.document_id,
            "before": self.before and self.before.to_wire(),
            "after": self.after and self.after.to_wire(),
        }


def movements(
    before: Sequence[RankedHit], after: Sequence[RankedHit], ids: Sequence[str], *, unit: str = "document_id"
) -> list[Movement]:
    """The movements of these documents, in this order; ranks count from 1.  With the unit `passage_id`: of passages."""
    was, now = _places(before, unit), _places(after, unit)
    return [Movement(id_, was.get(id_), now.get(id_)) for id_ in dict.fromkeys(ids)]


def _places(hits: Sequence[RankedHit], unit: str) -> dict[str, Place]:
    return {
        getattr(hit, unit): Place(rank, hit.score, hit.branches) for rank, hit in enumerate(hits, start=1)
    }
