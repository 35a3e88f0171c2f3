"""CombMNZ (Fox and Shaw, TREC-2, 1994): the sum of normalised scores times the number of branches that found the document.

Scores are normalised by min-max between the branch's own lowest and highest.  A branch counts if it found the document, whatever its
score, and has a weight above 0.  `k` has no effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fusion.by_score import new_worth, values_of
from fusion.methods.comb_sum import normalised
from models.fusion_method import BranchRanking, Method, Worth


def worths(rankings: Sequence[BranchRanking], k: float) -> list[Sequence[Worth]]:
    """For each hit its normalised score; its weight is the branch's, times the number of branches that found the document."""
    finders = Counter(id_ for one in rankings if one.weight > 0 for id_ in one.ids[: one.found])
    return [
        [
            new_worth((ranking.weight * finders[id_], value))
            for id_, value in zip(ranking.ids, values_of(ranking, normalised), strict=True)
        ]
        for ranking in rankings
    ]


METHOD = Method(
    name="comb-mnz",
    worths=worths,
    best=lambda k: 1.0,
    single_hit=lambda k: 1.0,
    all_equal=lambda k, rank: 1.0,
    uses_scores=True,
)
