"""The worths of methods that normalise the scores of each branch by themselves.

A score that is NaN, infinite or beyond 1e100 has the value 0, and the other scores are normalised without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import fsum, sqrt

from models.fusion_method import BranchRanking, Worth, Worths

_LARGEST = 1e100

Normalise = Callable[[Sequence[float], BranchRanking], Sequence[float]]
"""The scores of a ranking, and the ranking -> the value of each score."""

new_worth = partial(tuple.__new__, Worth)
"""Makes a worth of (weight, normalised) in half the time that `Worth(…)` takes."""


def by_score(normalised: Normalise) -> Worths:
    """For each hit its normalised score, with its branch's weight."""

    def worths(rankings: Sequence[BranchRanking], k: float) -> list[Sequence[Worth]]:
        return [
            [new_worth((ranking.weight, value)) for value in values_of(ranking, normalised)]
            for ranking in rankings
        ]

    return worths


def values_of(ranking: BranchRanking, normalised: Normalise) -> Sequence[float]:
    """The value of each hit."""
    scores = [hit.score for hit in ranking.hits]
    if sum(map(abs, scores)) <= _LARGEST:
        return normalised(scores, ranking)
    values = iter(normalised([score for score in scores if abs(score) <= _LARGEST], ranking))
    return [next(values) if abs(score) <= _LARGEST else 0.0 for score in scores]


def mean_and_sigma(scores: Sequence[float]) -> tuple[float, float]:
    """Sigma has n - 1 in the denominator; it is 0 for one score, for equal scores and for less than 1e-160 between them."""
    mean = fsum(scores) / max(1, len(scores))
    if len(scores) < 2 or max(scores) == min(scores):
        return mean, 0.0
    return mean, sqrt(fsum([(score - mean) ** 2 for score in scores]) / (len(scores) - 1))
