"""The conditions of a request on its hits: the lowest scores that it accepts, and what it drops if nothing is left (`relax`).

A hit of a branch below `min_branch_score`, on the branch's own scale, counts as not found by the branch.

`min_fused_score` is a share of the attainable score: the score, before boosts, of a document that every branch with an
answer has put first.  DBSF and z-score have no highest value: there the highest one of this question takes its place.

`min_rerank_score` is compared with the sigmoid of the cross-encoder's logit.  Hits that the cross-encoder did not reach
stand below the reached ones, and are removed as well; if it reached none, nothing is removed.

A filter is dropped by the branches: one whose search finds nothing searches again without the first filter of `relax`, then
without the second, and so on.  `least_relaxed` then keeps, for each question, only the rankings that dropped least; so a
filter is dropped if no branch finds anything with it.  A threshold is dropped where it has removed every hit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import fsum, isfinite

from chorale_client.request import RELAXABLE_FILTER, Request, Thresholds

from fusion.candidates import Candidate
from fusion.fused_hits import FusedHit
from models.branch_result import BranchResult
from models.declarations.fusion_method import BranchRanking, Method
from models.hits import Hit, Ranking

_FIRST = Hit("", "", 1e99)
"""Its score is above any that late fusion cuts, and small enough to count as a number."""


def above_branch_scores(
    rankings: Sequence[BranchRanking], thresholds: Thresholds | None
) -> list[BranchRanking]:
    """The rankings without the hits that are below their branch's threshold."""
    lowest = thresholds.min_branch_score if thresholds else {}
    return [
        _above(ranking, lowest[ranking.name]) if ranking.name in lowest else ranking for ranking in rankings
    ]


def _above(ranking: BranchRanking, lowest: float) -> BranchRanking:
    above = [(id_, hit) for id_, hit in zip(ranking.ids, ranking.hits, strict=True) if hit.score >= lowest]
    return replace(ranking, ids=tuple(id_ for id_, _ in above), hits=tuple(hit for _, hit in above))


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
        best = max(
            (contribution.normalised for candidate in candidates for _, _, contribution in candidate.entries),
            default=0.0,
        )
    firsts = [
        replace(ranking, ids=("",), hits=(_FIRST,), n_retrieved=None)
        if ranking.name in answered
        else replace(ranking, ids=(), hits=(), n_retrieved=None)
        for ranking in sorted(rankings, key=lambda ranking: ranking.name)
    ]
    return fsum(contribution.weight * best for row in method.contributions(firsts, k) for contribution in row)


def above_fused_score(
    candidates: Sequence[Candidate], lowest: float, attainable_score: float
) -> list[Candidate]:
    """The candidates whose score is at least the share `lowest` of the attainable score."""
    # Fused scores are rounded to 40 bits.
    return [
        candidate
        for candidate in candidates
        if attainable_score <= 0 or round(candidate.score / attainable_score, 9) >= lowest
    ]


def above_rerank_score(hits: Sequence[FusedHit], lowest: float) -> list[FusedHit]:
    """The hits that the reranker gave at least `lowest`; all if it scored none."""
    scores = [hit.rerank.score if hit.rerank else None for hit in hits]
    if all(score is None for score in scores):
        return list(hits)
    return [hit for hit, score in zip(hits, scores, strict=True) if score is not None and score >= lowest]


FUSED_THRESHOLDS = ("min_branch_score", "min_fused_score")
_THRESHOLD = "thresholds."


def relaxable_filters(request: Request) -> tuple[str, ...]:
    """The filters of `relax`, in order, each once."""
    return tuple(name for name in dict.fromkeys(request.relax) if name.startswith(RELAXABLE_FILTER))


def without_filters(request: Request, count: int) -> Request:
    """The request without the first `count` filters of `relax`."""
    dropped = {name.removeprefix(RELAXABLE_FILTER) for name in relaxable_filters(request)[:count]}
    filters = {field: condition for field, condition in request.filters.items() if field not in dropped}
    return request.model_copy(update={"filters": filters})


def relaxable_thresholds(request: Request, names: Sequence[str]) -> list[str]:
    """Those of `names` that `relax` has, in its order, each once."""
    conditions = dict.fromkeys(request.relax)
    relaxable = [name.removeprefix(_THRESHOLD) for name in conditions if name.startswith(_THRESHOLD)]
    return [name for name in relaxable if name in names]


def without_threshold(thresholds: Thresholds, name: str) -> Thresholds:
    default = Thresholds.model_fields[name].get_default(call_default_factory=True)
    return thresholds.model_copy(update={name: default})


def least_relaxed(branch_results: Mapping[str, BranchResult]) -> Mapping[str, BranchResult]:
    """The branch results, with only those rankings for each question that dropped the fewest filters."""
    if not any(
        ranking.relaxed for branch_result in branch_results.values() for ranking in branch_result.rankings
    ):
        return branch_results
    least: dict[int, int] = {}
    for branch_result in branch_results.values():
        for place, ranking in enumerate(branch_result.rankings):
            if ranking.hits:
                least[place] = min(ranking.relaxed, least.get(place, ranking.relaxed))
    return {
        name: replace(
            branch_result,
            rankings=tuple(
                ranking if ranking.relaxed <= least.get(place, 0) else Ranking()
                for place, ranking in enumerate(branch_result.rankings)
            ),
        )
        for name, branch_result in branch_results.items()
    }


def dropped_filters(request: Request, rankings: Sequence[Ranking]) -> tuple[str, ...]:
    """The filters without which the rankings of `least_relaxed` were found."""
    return relaxable_filters(request)[: max((ranking.relaxed for ranking in rankings), default=0)]
