"""Weighted min-max fusion: sum of weight x (score - lowest) / (highest - lowest), each branch on its own scale.

`lowest` is the branch's `floor`, the lowest score that any document can have (BM25: 0), which Bruch, Gai and Ingber (TOIS
2023) call the theoretical minimum; a branch that has none takes the score of its last hit.  Hits with equal scores get 1.
`k` has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence

from fusion.by_score import by_score
from models.fusion_method import Method


def normalised(scores: Sequence[float], floor: float | None) -> list[float]:
    """The scores between 0 (the floor, or the lowest score) and 1 (the highest score)."""
    lowest, highest = min(scores, default=0.0), max(scores, default=0.0)
    if lowest == highest:
        return [1.0] * len(scores)
    if floor is not None and floor < lowest:
        lowest = floor
    return [(score - lowest) / (highest - lowest) for score in scores]


METHOD = Method(
    name="min-max",
    worths=by_score(lambda scores, ranking: normalised(scores, ranking.floor)),
    best=lambda k: 1.0,
    single_hit=lambda k: 1.0,
    all_equal=lambda k, rank: 1.0,
    uses_scores=True,
)
