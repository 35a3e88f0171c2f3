"""Distribution-based score fusion: sum of weight x (score - mean + 3 sigma) / 6 sigma, each branch on its own scale.

As in Qdrant, sigma has n - 1 in the denominator, and a list of one hit, or of equal scores, gives .5.  A value below 0 (a score
more than 3 sigma below the mean) becomes 0; one above 1 stays, because it is what a clear lead is.  `k` has no effect.

A document that a branch did not find adds nothing, so use it with `complete_scores`, where no document is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from fusion.by_score import by_score, mean_and_sigma
from models.fusion_method import Method


def normalised(scores: Sequence[float]) -> list[float]:
    mean, sigma = mean_and_sigma(scores)
    if not sigma:
        return [0.5] * len(scores)
    return [max(0.0, (score - mean) / (6 * sigma) + 0.5) for score in scores]


METHOD = Method(
    name="dbsf",
    worths=by_score(lambda scores, ranking: normalised(scores)),
    best=lambda k: inf,
    single_hit=lambda k: 0.5,
    all_equal=lambda k, rank: 0.5,
    better_rank_never_lowers=False,
    uses_scores=True,
)
