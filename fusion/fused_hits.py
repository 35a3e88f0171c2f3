"""The result of fusing one question: hits with an explanation of their scores, which store has their texts, and a hit as JSON."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusion.deduplication import Duplicate
from fusion.question_terms import QuestionTerms
from fusion.snippets import best_snippet, matches_of
from models.branch_result import StageNote
from models.documents import PassageText
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
    """A `chorale_client.wire_names.RerankStage`."""
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
    folded: tuple[Duplicate, ...]
    source_type: str | None
    published_at: str | None
    score_kind: str | None = None
    """The scale of the score; None: that of the question."""
    rerank: Reranked | None = None
    pinned: str | None = None
    """The rule that puts the hit first."""
    store: str | None = None
    """For a pinned hit that is there for its rule alone: the store that has it."""

    @property
    def found_by(self) -> tuple[str, ...]:
        return tuple(name for name, branch in self.branches.items() if branch.rank)


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
    """The signals from which `fusion.confidence` computes the confidence."""
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


def store_of(hit: FusedHit, stores: Mapping[str, str]) -> str:
    """The store that has the hit's passage: that of the first branch that found it, since a store that only scored it may lack it.

    `stores` are by branch.
    """
    chose_it = [name for name, score in hit.branches.items() if score.passage_id == hit.passage_id]
    return hit.store or stores[min(chose_it, key=lambda name: hit.branches[name].rank == 0)]


def texts_to_fetch(plan: Plan, hits: Sequence[FusedHit], known: Container[str]) -> dict[str, list[str]]:
    """Passage ids by store, without duplicates.

    The other passages that branches found of a document are among them, if it costs no further call and nothing is
    reranked: a reranker has read only the first.  `known`: the passages whose texts came with the rankings.
    """
    stores = {branch.name: branch.store for branch in plan.branches}
    by_store: dict[str, dict[str, None]] = {}
    for hit in hits:
        if hit.passage_id not in known:
            by_store.setdefault(store_of(hit, stores), {})[hit.passage_id] = None
    requested = set().union(*by_store.values())
    for hit in hits[:MOST_WITH_CHOICE] if plan.rerank is None else ():
        for name, branch_score in hit.branches.items():
            if (
                branch_score.rank
                and branch_score.passage_id not in requested
                and branch_score.passage_id not in known
                and stores[name] in by_store
            ):
                requested.add(branch_score.passage_id)
                by_store[stores[name]][branch_score.passage_id] = None
    return {store: list(passage_ids) for store, passage_ids in by_store.items()}


_ON_THE_HIT = ("source_type", "published_at", "language", "url")
"""Reserved metadata that are fields of the hit."""


def _explanation(hit: FusedHit) -> dict[str, Any]:
    return {
        "branches": {
            name: {field: getattr(branch, field) for field in BranchScore.__slots__}
            for name, branch in hit.branches.items()
        },
        "boosts": dict(hit.boosts),
    }


def _description(hit: FusedHit, metadata: dict[str, Any]) -> dict[str, Any]:
    described = {
        "source_type": hit.source_type or metadata.get("source_type"),
        "published_at": hit.published_at or metadata.get("published_at"),
        "language": metadata.get("language"),
        "url": metadata.get("url"),
    }
    rest = {name: value for name, value in metadata.items() if name not in _ON_THE_HIT}
    # A store of another package may return other types; they must not make the whole answer unreadable.
    texts = {name: value for name, value in described.items() if isinstance(value, str)}
    return {"found_by": list(hit.found_by), **texts, "metadata": rest}


def _after_fusion(hit: FusedHit) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    if hit.rerank is not None:
        # A hit that was not reached has no score; null fields are always left out.
        reached = {} if hit.rerank.score is None else {"score": hit.rerank.score}
        wire["rerank"] = {**reached, "stage": str(hit.rerank.stage), "fused_score": hit.rerank.fused_score}
    if hit.pinned:
        wire["pinned"] = hit.pinned
    if hit.folded:
        wire["folded"] = [
            {"document_id": folded.document_id, "why": str(folded.why), "similarity": folded.similarity}
            for folded in hit.folded
        ]
    return wire


def hit_to_wire(
    hit: FusedHit,
    rank: int,
    *,
    score_kind: str,
    include: Collection[str],
    passages: Sequence[PassageText],
    terms: QuestionTerms,
    snippet_chars: int,
) -> dict[str, Any]:
    """Ids and score are always included; fields that need a missing text are left out.

    `passages` are those of the hit that have a text, first the one that stands for it; the snippet chooses among them.
    """
    passage, snippet = passages[0] if passages else None, None
    if passages and "snippets" in include:
        chosen, snippet = best_snippet([passage.text for passage in passages], terms, snippet_chars)
        passage = passages[chosen]
    wire: dict[str, Any] = {
        "rank": rank,
        "document_id": hit.document_id,
        "passage_id": passage.passage_id if passage else hit.passage_id,
        "score": hit.score,
        "score_kind": score_kind,
    }
    if "metadata" in include:
        if passage is not None:
            wire["title"] = passage.title
            if passage.pages:
                wire["pages"] = passage.pages
        wire |= _description(hit, dict(passage.metadata) if passage else {})
    if passage is not None:
        if snippet is not None:
            wire["snippet"] = {
                "text": snippet.text,
                "highlights": [[start, end] for start, end in snippet.highlights],
            }
        if "texts" in include:
            wire["text"] = passage.text
            wire["matches"] = matches_of(passage, terms)
    if "explanation" in include:
        wire |= _explanation(hit)
    return wire | _after_fusion(hit)
