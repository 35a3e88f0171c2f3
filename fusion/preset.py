"""What presets share: they are methods of ours with a `k` of their own, and some without weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from models.fusion_method import BranchRanking, Method


def preset(name: str, method: Method, *, k: float = 60.0, is_weighted: bool = True) -> Method:
    """`method` under another name, as another system has it: always with this `k`, with scores and weights as they came.

    With `is_weighted` False every branch has weight 1, unless it has 0 and takes no part.
    """

    def weighted(rankings: Sequence[BranchRanking]) -> Sequence[BranchRanking]:
        if is_weighted:
            return rankings
        return [replace(ranking, weight=float(ranking.weight > 0)) for ranking in rankings]

    return replace(
        method,
        name=name,
        worths=lambda rankings, _: method.worths(weighted(rankings), k),
        best=lambda _: method.best(k),
        single_hit=lambda _: method.single_hit(k),
        all_equal=lambda _, rank: method.all_equal(k, rank),
        uses_scores=False,
    )
