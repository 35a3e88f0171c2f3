"""Qdrant's `rrf`: sum of 1 / ((rank from 0 + 1) / weight + k - 1), k 2, which is weight / (rank + weight) with ranks from 1.

A weight stretches the ranks of its branch, so (1, 2) and (2, 4) rank differently; 1 is Qdrant's default.
"""

from __future__ import annotations

from collections.abc import Sequence

from fusion.by_score import new_worth
from models.fusion_method import BranchRanking, Method, Worth


def worths(rankings: Sequence[BranchRanking], k: float) -> list[Sequence[Worth]]:
    """Normalised: (1 + weight) / (rank + weight), which is 1 at rank 1.  Weight: weight / (1 + weight)."""
    return [_row(ranking.weight, len(ranking.ids)) for ranking in rankings]


def _row(weight: float, length: int) -> list[Worth]:
    share = weight / (1 + weight)
    return [new_worth((share, (1 + weight) / (rank + weight))) for rank in range(1, length + 1)]


METHOD = Method(
    name="qdrant",
    worths=worths,
    best=lambda k: 1.0,
    single_hit=lambda k: 1.0,
    all_equal=lambda k, rank: 2 / (rank + 1),
    is_scale_free=False,
)
