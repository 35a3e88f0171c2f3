"""Weighted reciprocal rank fusion: sum of weight / (k + rank).

Cormack, Clarke and Büttcher, SIGIR 2009; ranks start at 1; they found k = 60 good on all collections.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from models.fusion_method import BranchRanking, Method, Worth


def reciprocal_rank(k: float, rank: int = 1) -> float:
    return 1.0 / (k + rank)


@lru_cache(maxsize=256)
def _row(weight: float, k: float, length: int) -> tuple[Worth, ...]:
    return tuple([Worth(weight, reciprocal_rank(k, rank)) for rank in range(1, length + 1)])


def worths(rankings: Sequence[BranchRanking], k: float) -> list[Sequence[Worth]]:
    """1 / (k + rank) for every id, with its branch's weight."""
    return [_row(ranking.weight, k, len(ranking.ids)) for ranking in rankings]


METHOD = Method(
    name="rrf",
    worths=worths,
    best=reciprocal_rank,
    single_hit=reciprocal_rank,
    all_equal=reciprocal_rank,
)
