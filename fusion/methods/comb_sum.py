"""CombSUM (Fox and Shaw, TREC-2, 1994): sum of weight x (score - lowest) / (highest - lowest), each branch on its own scale.

`lowest` is the score of the branch's last hit, also where the branch has a floor.  Hits with equal scores get 1.  `k` has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence

from fusion.by_score import by_score
from fusion.methods import min_max
from models.fusion_method import BranchRanking, Method


def normalised(scores: Sequence[float], ranking: BranchRanking) -> list[float]:
    return min_max.normalised(scores, None)


METHOD = Method(
    name="comb-sum",
    worths=by_score(normalised),
    best=lambda k: 1.0,
    single_hit=lambda k: 1.0,
    all_equal=lambda k, rank: 1.0,
    uses_scores=True,
)
