"""1 / rank: reciprocal rank fusion with k = 0."""

from __future__ import annotations

from collections.abc import Sequence

from models.declarations.fusion_method import BranchRanking, Contribution, Method


def _contributions(rankings: Sequence[BranchRanking], k: float) -> list[Sequence[Contribution]]:
    return [
        [Contribution(ranking.weight, 1 / rank) for rank in range(1, len(ranking.ids) + 1)]
        for ranking in rankings
    ]


INVERSE_RANK = Method(
    name="inverse-rank",
    contributions=_contributions,
    best=lambda k: 1.0,
    single_hit=lambda k: 1.0,
    all_equal=lambda k, rank: 1 / rank,
)
