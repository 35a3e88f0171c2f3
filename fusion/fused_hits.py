"""What fusing one question comes to: hits that explain their own scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fusion.fold import Folded
from models.documents import PassageText
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
class Reranked:
    """What the reranker said of a hit."""

    stage: str
    """A `chorale_client.words.RerankStage`."""
    fused_score: float
    """The hit's score before."""
    score: float | None = None
    """The sigmoid of the cross-encoder's logit; None where it was not reached."""


@dataclass(frozen=True, slots=True)
class FusedHit:
    document_id: str
    passage_id: str
    """The passage that earned most, over the branches that chose it."""
    score: float
    """Sum of the contributions x product of the boosts, at 12 significant digits; reranked: the blend of both."""
    branches: Mapping[str, BranchScore]
    """By branch name, in name order."""
    boosts: Mapping[str, float]
    folded: tuple[Folded, ...]
    source_type: str | None
    published_at: str | None
    rerank: Reranked | None = None

    @property
    def found_by(self) -> tuple[str, ...]:
        return tuple(self.branches)


@dataclass(frozen=True, slots=True)
class FusedQuestion:
    hits: tuple[FusedHit, ...] = ()
    """The page, `top_k` hits after `offset`; before reranking all that may come onto it."""
    stages: tuple[StageNote, ...] = ()
    """collapse, fuse, boost, fold."""
    total_matches: int = 0
    """At least so many documents matched: the most that a branch knows of, or that were fused."""
    coverage: float = 0.0
    """Share of the page's hits that branches of several groups found; 0 without hits."""
    ordered_by: str = "score"
    warnings: tuple[str, ...] = ()
    texts: Mapping[str, PassageText] = field(default_factory=dict)
    """By passage id: those that came with the rankings."""
    score_kind: str | None = None
    """The scale of the hits' scores; None: the fusion method's."""


def coverage(hits: Sequence[FusedHit], group_of: Mapping[str, str]) -> float:
    """Share of the hits that branches of several groups found; 0 without hits."""
    several = sum(len({group_of[name] for name in hit.branches}) > 1 for hit in hits)
    return several / len(hits) if hits else 0.0
