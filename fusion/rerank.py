"""The candidates for a cross-encoder, and their order after reranking.

The score of a reranked hit is `(1 - weight) x fused + weight x reranked`, where `fused` is the fused score normalised by
min-max over the coarse list and `reranked` the sigmoid of the cross-encoder's logit.  Neither depends on how many hits
were reached.  Hits that were not reached follow in the fused order with the fused part of the score, but at most the
score of the hit before them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp

from chorale_client.request import Request
from chorale_client.wire_names import RerankStage

from fusion.candidates import significant
from fusion.conditions import above_rerank_score, relaxable_thresholds
from fusion.fused_hits import FusedHit, FusedQuestion, Reranked
from fusion.page import is_chosen_among_all, page_of, split_pinned
from models.plan import Plan, RerankPlan

SCORE_KIND = "rerank"


@dataclass(frozen=True, slots=True)
class Reached:
    """The cross-encoder's results for one question."""

    chosen: Collection[str] = ()
    """The passage ids that were chosen for reranking."""
    logits: Mapping[str, float] | None = None
    """Logits of the reranked passages by passage id."""


def needed_range(request: Request, plan: Plan) -> tuple[int, int | None]:
    """The range [first, last) of folded hits that matter: the page, or all hits that a later stage may move onto it."""
    if is_chosen_among_all(request):
        return 0, None
    last = request.offset + request.top_k
    return (request.offset, last) if plan.rerank is None else (0, max(plan.rerank.coarse, last))


def candidates(fused: Mapping[int, FusedQuestion], depth: int) -> list[tuple[int, FusedHit]]:
    """(Position of the question in the request, hit): the best hit of each question, then the second ones, …"""
    return [
        (index, question.hits[place])
        for place in range(depth)
        for index, question in fused.items()
        if place < len(question.hits)
    ]


def sigmoid(logit: float) -> float:
    # The usual formula overflows for very negative logits.
    return 1 / (1 + exp(-logit)) if logit >= 0 else exp(logit) / (1 + exp(logit))


def min_max(scores: Sequence[float], coarse: int) -> list[float]:
    """(s - min) / (max - min) over the first `coarse` of falling scores; 1 if these are equal, 0 below the minimum."""
    coarse_scores = scores[:coarse]
    if not coarse_scores:
        return []
    highest, lowest = coarse_scores[0], coarse_scores[-1]
    if highest == lowest:
        return [float(score == highest) for score in scores]
    return [max(0.0, (score - lowest) / (highest - lowest)) for score in scores]


def _signals(logits: Mapping[str, float]) -> dict[str, float]:
    """For `fusion.confidence`: the highest logit, and how far it is above the next one."""
    best = sorted(logits.values(), reverse=True)[:2]
    return {"rerank": best[0], "rerank_gap": best[0] - best[-1]} if best else {}


def _above_lowest(
    question: FusedQuestion, hits: list[FusedHit], request: Request
) -> tuple[FusedQuestion, list[FusedHit]]:
    """The hits above `min_rerank_score`, and the question with what it says of the others."""
    if request.thresholds is None or (lowest := request.thresholds.min_rerank_score) is None:
        return question, hits
    above = {hit.passage_id for hit in above_rerank_score(hits, lowest)}
    accepted = [hit for hit in hits if hit.pinned or hit.passage_id in above]
    if hits and not accepted and relaxable_thresholds(request, ("min_rerank_score",)):
        return replace(question, relaxed=(*question.relaxed, "thresholds.min_rerank_score")), hits
    return replace(
        question, removed={**question.removed, "min_rerank_score": len(hits) - len(accepted)}
    ), accepted


def rerank_question(
    question: FusedQuestion, rerank: RerankPlan, reached: Reached, request: Request, plan: Plan
) -> FusedQuestion:
    """The page of the question after reranking, or all its hits if the page is chosen later; its hits are those of
    `needed_range`.

    If no hit was reached, the fused order and scores stay.
    """
    logits = reached.logits or {}
    pinned = {hit.document_id: place for place, hit in enumerate(question.hits) if hit.pinned}
    fused = sorted(question.hits, key=lambda hit: -hit.score) if pinned else question.hits
    shares = [(1 - rerank.weight) * value for value in min_max([hit.score for hit in fused], rerank.coarse)]
    above: list[tuple[float, int, FusedHit]] = []
    below: list[tuple[int, FusedHit]] = []
    for at, hit in enumerate(fused):
        if (logit := logits.get(hit.passage_id)) is None:
            stage = (
                RerankStage.COARSE_FALLBACK if hit.passage_id in reached.chosen else RerankStage.COARSE_ONLY
            )
            below.append((at, replace(hit, rerank=Reranked(stage, hit.score))))
        else:
            score = significant(shares[at] + rerank.weight * sigmoid(logit))
            reranked = Reranked(RerankStage.RERANKED, hit.score, significant(sigmoid(logit)))
            above.append((-score, at, replace(hit, score=score, rerank=reranked)))
    hits = [hit for _, _, hit in sorted(above, key=lambda entry: entry[:2])]
    for at, hit in below:
        # Reranked scores have another scale than fused ones.
        score = min(significant(shares[at]), hits[-1].score) if above else hit.score
        hits.append(replace(hit, score=score))
    question, hits = _above_lowest(question, hits, request)
    if pinned:
        first, others = split_pinned(hits)
        hits = [*sorted(first, key=lambda hit: pinned[hit.document_id]), *others]
    question = replace(
        question,
        hits=tuple(hits),
        score_kind=SCORE_KIND if above else question.score_kind,
        signals={**question.signals, **_signals(logits)},
    )
    return question if is_chosen_among_all(request) else page_of(question, request, plan)
