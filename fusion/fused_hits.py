"""The result of fusing one question: hits with an explanation of their scores, and which store has their texts."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from fusion.fold import Folded
from models.documents import PassageText
from models.envelope import StageNote
from models.plan import Plan


@dataclass(frozen=True, slots=True)
class BranchScore:
    """One branch's part in the score of a hit."""

    rank: int
    """Rank in the collapsed ranking, from 1; 0 if the branch did not find the document and only scored it."""
    score: float
    """On the branch's own scale."""
    normalised: float
    weight: float
    contribution: float
    """weight x normalised; the fused score is the sum over all branches."""
    passage_id: str


@dataclass(frozen=True, slots=True)
class Reranked:
    """The reranker's part in the score of a hit."""

    stage: str
    """A `chorale_client.words.RerankStage`."""
    fused_score: float
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
    pinned: str | None = None
    """The rule that puts the hit first."""
    store: str | None = None
    """For a pinned hit that is there for its rule alone: the store that has it."""

    @property
    def found_by(self) -> tuple[str, ...]:
        return tuple(name for name, one in self.branches.items() if one.rank)


@dataclass(frozen=True, slots=True)
class FusedQuestion:
    hits: tuple[FusedHit, ...] = ()
    """The page (`top_k` hits after `offset`); before reranking all hits that may move onto it."""
    stages: tuple[StageNote, ...] = ()
    """collapse, threshold, fuse, boost, fold."""
    total_matches: int = 0
    """Lower bound of matching documents: the largest number that a branch reports, or that were fused."""
    coverage: float = 0.0
    """Share of the page's hits that branches of several groups found; 0 without hits."""
    ordered_by: str = "score"
    removed: Mapping[str, int] = field(default_factory=dict)
    """Number of hits that an option removed, by the option; for each option that the request has."""
    relaxed: tuple[str, ...] = ()
    """The conditions of the request's `relax` that were dropped, because nothing was found with them."""
    warnings: tuple[str, ...] = ()
    texts: Mapping[str, PassageText] = field(default_factory=dict)
    """The texts that came with the rankings, by passage id."""
    signals: Mapping[str, float] = field(default_factory=dict)
    """What tells whether a relevant document was found (`fusion.confidence`)."""
    rules: tuple[str, ...] = ()
    """The rules of the namespace that have acted."""
    score_kind: str | None = None
    """The scale of the scores; None: the scale of the fusion method."""


def coverage(hits: Sequence[FusedHit], group_of: Mapping[str, str]) -> float:
    """Share of the hits that branches of several groups found; 0 without hits."""
    several = sum(len({group_of[name] for name in hit.found_by}) > 1 for hit in hits)
    return several / len(hits) if hits else 0.0


MOST_WITH_CHOICE = 100
"""Hits whose other passages are fetched too, for the snippet."""


def texts_to_fetch(plan: Plan, hits: Sequence[FusedHit], known: Container[str]) -> dict[str, list[str]]:
    """Passage ids by store, without duplicates: the store of the first branch that chose the passage.

    The other passages that branches found of a document are among them, if it costs no further call and nothing is
    reranked: a reranker has read only the first.  `known`: the passages whose texts came with the rankings.
    """
    store_of = {branch.name: branch.store for branch in plan.branches}
    wanted: dict[str, dict[str, None]] = {}
    for hit in hits:
        if hit.passage_id not in known:
            chose_it = (name for name, one in hit.branches.items() if one.passage_id == hit.passage_id)
            store = hit.store or store_of[next(chose_it)]
            wanted.setdefault(store, {})[hit.passage_id] = None
    asked = set().union(*wanted.values())
    for hit in hits[:MOST_WITH_CHOICE] if plan.rerank is None else ():
        for name, one in hit.branches.items():
            if one.passage_id not in asked and one.passage_id not in known and store_of[name] in wanted:
                asked.add(one.passage_id)
                wanted[store_of[name]][one.passage_id] = None
    return {store: list(passage_ids) for store, passage_ids in wanted.items()}
