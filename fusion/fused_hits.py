"""The result of fusing one question: hits with an explanation of their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fusion.fold import Folded
from models.documents import PassageText
from models.envelope import StageNote


@dataclass(frozen=True, slots=True)
class BranchScore:
    """One branch's part in the score of a hit."""

    rank: int
    """Rank in the collapsed ranking, from 1."""
    score: float
    """On the branch's own scale."""
    normalised: float
    weight: float
    contribution: float
    """weight x normalised; the fused score is the sum over all branches."""
    passage_id: str
    """The branch's best passage."""


@dataclass(frozen=True, slots=True)
class Reranked:
    """The reranker's part in the score of a hit."""

    stage: str
    """A `chorale_client.words.RerankStage`."""
    fused_score: float
    """The score before reranking."""
    score: float | None = None
    """The sigmoid of the cross-encoder's logit; None if the hit was not reached."""


@dataclass(frozen=True, slots=True)
class FusedHit:
    document_id: str
    passage_id: str
    """The passage with the largest sum of contributions."""
    score: float
    """Sum of contributions x product of boosts, at 12 significant digits; after reranking the blended score."""
    branches: Mapping[str, BranchScore]
    """Key: branch name, in name order."""
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
    """The page (`top_k` hits after `offset`); before reranking all hits that may move onto it."""
    stages: tuple[StageNote, ...] = ()
    """collapse, fuse, boost, fold."""
    total_matches: int = 0
    """Lower bound of matching documents: the largest number that a branch reports, or that were fused."""
    coverage: float = 0.0
    """Share of the page's hits that branches of several groups found; 0 without hits."""
    ordered_by: str = "score"
    warnings: tuple[str, ...] = ()
    texts: Mapping[str, PassageText] = field(default_factory=dict)
    """The texts that came with the rankings, by passage id."""
    score_kind: str | None = None
    """The scale of the scores; None: the scale of the fusion method."""


def coverage(hits: Sequence[FusedHit], group_of: Mapping[str, str]) -> float:
    """Share of the hits that branches of several groups found; 0 without hits."""
    several = sum(len({group_of[name] for name in hit.branches}) > 1 for hit in hits)
    return several / len(hits) if hits else 0.0
