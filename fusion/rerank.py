"""Candidates of a cross-encoder, and the order that its scores make of them.

The score of a reranked hit is `(1 - weight) x fused + weight x reranked`: the fused score by min-max over the
coarse list, and the sigmoid of the cross-encoder's logit.  Neither depends on how many hits were reached.  What was
not reached stays below, in the fused order, and shows its fused share, though never more than the hit before it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp

from chorale_client.request import Request
from chorale_client.words import RerankStage

from fusion.fused_hits import FusedHit, FusedQuestion, Reranked, coverage
from fusion.order import significant
from models.plan import Plan, RerankPlan

SCORE_KIND = "rerank"


@dataclass(frozen=True, slots=True)
class Reached:
    """What the cross-encoder made of one question's candidates."""

    chosen: Collection[str] = ()
    """Passage ids that were to be reranked."""
    logits: Mapping[str, float] | None = None
    """By passage id, of those that were."""


def shown_range(request: Request, plan: Plan) -> tuple[int, int]:
    """Which of the folded hits are looked at, [first, last): the page, or all that reranking may bring onto it."""
    last = request.offset + request.top_k
    return (request.offset, last) if plan.rerank is None else (0, max(plan.rerank.coarse, last))


def candidates(fused: Mapping[int, FusedQuestion], depth: int) -> list[tuple[int, FusedHit]]:
    """(The question's place in the request, hit) of all questions: the best of each, then the second ones, ..."""
    return [
        (index, one.hits[place])
        for place in range(depth)
        for index, one in fused.items()
        if place < len(one.hits)
    ]


def sigmoid(logit: float) -> float:
    # For logits far below 0 the usual form overflows.
    return 1 / (1 + exp(-logit)) if logit >= 0 else exp(logit) / (1 + exp(logit))


def min_max(scores: Sequence[float], coarse: int) -> list[float]:
    """(s - min) / (max - min) over the first `coarse` of falling scores; all equal: 1; what lies below the min: 0."""
    coarse_scores = scores[:coarse]
    if not coarse_scores:
        return []
    highest, lowest = coarse_scores[0], coarse_scores[-1]
    if highest == lowest:
        return [float(score == highest) for score in scores]
    return [max(0.0, (score - lowest) / (highest - lowest)) for score in scores]


def rerank_question(
    one: FusedQuestion, rerank: RerankPlan, reached: Reached, request: Request, plan: Plan
) -> FusedQuestion:
    """The page of `one`, whose hits are those of `shown_range`, in the order after reranking.

    Where nothing was reached the fused order and scores stand.
    """
    logits = reached.logits or {}
    shares = [
        (1 - rerank.weight) * value for value in min_max([hit.score for hit in one.hits], rerank.coarse)
    ]
    above: list[tuple[float, int, FusedHit]] = []
    below: list[tuple[int, FusedHit]] = []
    for at, hit in enumerate(one.hits):
        if (logit := logits.get(hit.passage_id)) is None:
            stage = (
                RerankStage.COARSE_FALLBACK if hit.passage_id in reached.chosen else RerankStage.COARSE_ONLY
            )
            below.append((at, replace(hit, rerank=Reranked(stage, hit.score))))
        else:
            score = significant(shares[at] + rerank.weight * sigmoid(logit))
            said = Reranked(RerankStage.RERANKED, hit.score, significant(sigmoid(logit)))
            above.append((-score, at, replace(hit, score=score, rerank=said)))
    hits = [hit for _, _, hit in sorted(above, key=lambda entry: entry[:2])]
    for at, hit in below:
        # Only beside reranked scores, which are on another scale than fused ones.
        score = min(significant(shares[at]), hits[-1].score) if above else hit.score
        hits.append(replace(hit, score=score))
    page = tuple(hits[request.offset : request.offset + request.top_k])
    return replace(
        one,
        hits=page,
        score_kind=SCORE_KIND if above else one.score_kind,
        coverage=coverage(page, {branch.name: branch.group for branch in plan.branches}),
    )
