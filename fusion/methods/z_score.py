"""Fusion of standard scores: sum of weight x (score - lowest) / sigma, each branch on its own scale; sigma has n - 1.

A standard score is (score - mean) / sigma.  It is counted from that of the branch's last hit, so that a document that the branch did not
find has 0, and not the mean.  Hits with equal scores get 1.  `k` has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from fusion.by_score import by_score, mean_and_sigma
from models.fusion_method import Method


def normalised(scores: Sequence[float]) -> list[float]:
    _, sigma = mean_and_sigma(scores)
    if not sigma:
        return [1.0] * len(scores)
    lowest = min(scores)
    return [(score - lowest) / sigma for score in scores]


METHOD = Method(
    name="z-score",
    worths=by_score(lambda scores, ranking: normalised(scores)),
    best=lambda k: inf,
    single_hit=lambda k: 1.0,
    all_equal=lambda k, rank: 1.0,
    better_rank_never_lowers=False,
    uses_scores=True,
)
