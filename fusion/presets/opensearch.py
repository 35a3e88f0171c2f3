"""OpenSearch's `normalization-processor`: `min_max`, then `arithmetic_mean`.

The mean is sum of weight x value / sum of all weights; a document that a branch did not find has the value 0 there.  A value of 0
that min-max gives becomes .001, and equal scores are worth 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import fsum

from fusion.by_score import by_score
from fusion.methods import min_max
from models.fusion_method import BranchRanking, Method, Worth

_LEAST = 0.001

_worths = by_score(lambda scores, ranking: [value or _LEAST for value in min_max.normalised(scores, None)])


def worths(rankings: Sequence[BranchRanking], k: float) -> list[Sequence[Worth]]:
    """For each hit its normalised score; its weight is the branch's share of all weights."""
    total = fsum(ranking.weight for ranking in rankings) or 1.0
    return _worths([replace(ranking, weight=ranking.weight / total) for ranking in rankings], k)


METHOD = Method(
    name="opensearch",
    worths=worths,
    best=lambda k: 1.0,
    single_hit=lambda k: 1.0,
    all_equal=lambda k, rank: 1.0,
    # The last hit gets .001; a hit that is only a little better can get less.
    better_rank_never_lowers=False,
)
