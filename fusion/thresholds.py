"""The lowest scores that a request accepts: of a branch, after the fusion, and of the reranker.

A hit of a branch below `min_branch_score`, on the branch's own scale, counts as not found by the branch.

`min_fused_score` is a share of the attainable score: the score, before boosts, of a document that every branch with an
answer has put first.  DBSF and z-score have no highest value: there the highest one of this question takes its place.

`min_rerank_score` is compared with the sigmoid of the cross-encoder's logit.  Hits that the cross-encoder did not reach
stand below the reached ones, and are removed as well; if it reached none, nothing is removed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import fsum, isfinite

from chorale_client.request import Thresholds

from fusion.candidates import Candidate
from fusion.fused_hits import FusedHit
from models.fusion_method import BranchRanking, Method
from models.hits import Hit

_FIRST = Hit("", "", 1e99)
"""Its score is higher than any that late fusion cuts, and not so large that it counts as no number."""


def above_branch_scores(
    rankings: Sequence[BranchRanking], thresholds: Thresholds | None
) -> list[BranchRanking]:
    """The rankings without the hits that are below their branch's threshold."""
    lowest = thresholds.min_branch_score if thresholds else {}
    return [
        _above(ranking, lowest[ranking.name]) if ranking.name in lowest else ranking for ranking in rankings
    ]


def _above(ranking: BranchRanking, lowest: float) -> BranchRanking:
    kept = [(id_, hit) for id_, hit in zip(ranking.ids, ranking.hits, strict=True) if hit.score >= lowest]
    return replace(ranking, ids=tuple(id_ for id_, _ in kept), hits=tuple(hit for _, hit in kept))


def attainable(
    rankings: Sequence[BranchRanking],
    answered: Collection[str],
    method: Method,
    k: float,
    candidates: Sequence[Candidate],
) -> float:
    """The score of a document that each of the branches `answered` has put first."""
    best = method.best(k)
    if not isfinite(best):
        best = max((worth.normalised for one in candidates for _, _, worth in one.found), default=0.0)
    firsts = [
        replace(ranking, ids=("",), hits=(_FIRST,), found=None)
        if ranking.name in answered
        else replace(ranking, ids=(), hits=(), found=None)
        for ranking in sorted(rankings, key=lambda ranking: ranking.name)
    ]
    return fsum(worth.weight * best for row in method.worths(firsts, k) for worth in row)


def above_fused_score(candidates: Sequence[Candidate], lowest: float, of: float) -> list[Candidate]:
    """The candidates whose score is at least the share `lowest` of the attainable score `of`."""
    # Fused scores are rounded to 40 bits.
    return [one for one in candidates if of <= 0 or round(one.score / of, 9) >= lowest]


def above_rerank_score(hits: Sequence[FusedHit], lowest: float) -> list[FusedHit]:
    """The hits that the reranker gave at least `lowest`; all if it scored none."""
    scores = [hit.rerank.score if hit.rerank else None for hit in hits]
    if all(score is None for score in scores):
        return list(hits)
    return [hit for hit, score in zip(hits, scores, strict=True) if score is not None and score >= lowest]
