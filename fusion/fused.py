"""What fusing one question comes to: hits that explain their own scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusion.fold import Folded
from models.envelope import StageNote


@dataclass(frozen=True, slots=True)
class BranchScore:
    """What one branch says of a hit."""

    rank: int
    """In the collapsed ranking, from 1."""
    score: float
    """On the branch's own scale."""
    normalised: float
    weight: float
    contribution: float
    """weight x normalised; the fused score is the sum over the branches."""
    passage_id: str
    """The branch's best passage."""


@dataclass(frozen=True, slots=True)
class FusedHit:
    document_id: str
    passage_id: str
    """The passage that earned most, over the branches that chose it."""
    score: float
    """Sum of the contributions x product of the boosts, at 12 significant digits."""
    branches: Mapping[str, BranchScore]
    """By branch name, in name order."""
    boosts: Mapping[str, float]
    folded: tuple[Folded, ...]
    source_type: str | None
    published_at: str | None

    @property
    def found_by(self) -> tuple[str, ...]:
        return tuple(self.branches)


@dataclass(frozen=True, slots=True)
class FusedQuestion:
    hits: tuple[FusedHit, ...] = ()
    """The page: `top_k` hits after `offset`."""
    stages: tuple[StageNote, ...] = ()
    """collapse, fuse, boost, fold."""
    total_matches: int = 0
    """At least so many documents matched: the most that a branch knows of, or that were fused."""
    coverage: float = 0.0
    """Share of the page's hits that branches of several groups found; 0 without hits."""
    ordered_by: str = "score"
    warnings: tuple[str, ...] = ()
