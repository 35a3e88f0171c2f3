"""Late fusion: the weighted mean over the sources that found a document, x (1 + .2 for each group of sources), cut at 1.

The score of BM25 / 20 is cut at 1, and other scores are clamped to 0-1.  Weights are divided by those of the sources that found the
document; a branch without a declared weight has .1.  Branches of one group share an encoder and count once, and no more than five groups
count.

A document with one strong source stands above one that a weak second source found too, because the mean falls.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from math import fsum
from operator import add, mul, or_

from fusion.by_score import new_worth, values_of
from models.fusion_method import BranchRanking, Method, Worth

_FULL_BM25 = 20.0
_BOOST = 0.2


def _clamped(scores: Sequence[float], ranking: BranchRanking) -> list[float]:
    full = _FULL_BM25 if (ranking.kind or ranking.name) == "bm25" else 1.0
    return [0.0 if score <= 0 else 1.0 if score >= full else score / full for score in scores]


def worths(rankings: Sequence[BranchRanking], k: float) -> list[Sequence[Worth]]:
    """For each hit its clamped score; its weight is the branch's share of the document's score, boost and cut included."""
    table = [values_of(ranking, _clamped) for ranking in rankings]
    # `map` and `update` take half the time of a loop.
    sources: dict[str, int] = {}
    sums: dict[str, float] = {}
    for place, (ranking, values) in enumerate(zip(rankings, table, strict=True)):
        if ranking.weight > 0:
            weighted = map(mul, values, repeat(ranking.weight))
            known = map(sources.get, ranking.ids, repeat(0))
            sources.update(zip(ranking.ids, map(or_, known, repeat(1 << place)), strict=True))
            so_far = map(sums.get, ranking.ids, repeat(0.0))
            sums.update(zip(ranking.ids, map(add, so_far, weighted), strict=True))
    factors = {set_: _factor(rankings, set_) for set_ in set(sources.values())}
    # The factor of each document: less where the score would exceed 1.
    shares = {
        id_: factor if (factor := factors[set_]) * sum_ <= 1.0 else 1.0 / sum_
        for (id_, set_), sum_ in zip(sources.items(), sums.values(), strict=True)
    }
    rows: list[Sequence[Worth]] = []
    for ranking, values in zip(rankings, table, strict=True):
        share_of = map(shares.get, ranking.ids, repeat(0.0))
        weights = map(mul, share_of, repeat(ranking.weight))
        rows.append(list(map(new_worth, zip(weights, values, strict=True))))
    return rows


def _factor(rankings: Sequence[BranchRanking], sources: int) -> float:
    """The boost divided by the sum of the weights, for documents that a set of rankings found: bit n is rankings[n]."""
    found = [ranking for place, ranking in enumerate(rankings) if sources >> place & 1]
    boost = 1 + min(1.0, _BOOST * len({ranking.group for ranking in found}))
    return boost / fsum([ranking.weight for ranking in found])


METHOD = Method(
    name="late-fusion",
    worths=worths,
    best=lambda k: 1.0,
    single_hit=lambda k: 1.0,
    all_equal=lambda k, rank: 1.0,
    undeclared_weight=0.1,
)
