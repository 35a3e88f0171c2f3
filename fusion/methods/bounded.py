"""Bounded scores: sum of weight x score / (score + half); a value tells how good a hit is by itself, and not in its list.

`half` is the score that is worth .5; a configuration declares it for each branch (`halves`), best as the median of the best scores of
a namespace.  A branch without one takes its own best score.  Scores below 0 are worth 0.  `k` has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence

from fusion.by_score import by_score
from models.fusion_method import BranchRanking, Method


def normalised(scores: Sequence[float], ranking: BranchRanking) -> list[float]:
    half = max(scores, default=0.0) if ranking.half is None else ranking.half
    return [score / (score + half) if score > 0 else 0.0 for score in scores]


METHOD = Method(
    name="bounded",
    worths=by_score(normalised),
    best=lambda k: 1.0,
    single_hit=lambda k: 0.5,
    all_equal=lambda k, rank: 0.5,
    uses_scores=True,
)
