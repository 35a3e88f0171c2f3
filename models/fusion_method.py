"""What every fusion method declares and promises.

The fused score of a document is the sum, over the branches that found it, of weight x normalised.  A hit has both values,
so that its score can be recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from models.hits import Hit


@dataclass(frozen=True, slots=True)
class BranchRanking:
    """One branch's collapsed ranking for one question; empty if the branch did not answer."""

    name: str
    group: str
    weight: float
    ids: tuple[str, ...]
    """What is ranked (document ids, or passage ids), best first, each once; the rank of `ids[0]` is 1."""
    hits: tuple[Hit, ...] = ()
    """The hit of each of `ids`, for methods that use scores."""


class Worth(NamedTuple):
    """The value of a branch's hit: it adds weight x normalised to the fused score."""

    weight: float
    normalised: float


@dataclass(frozen=True, slots=True)
class Method:
    """A fusion method and what it declares about its normalised values, all at a given `k`."""

    name: str
    """What a pipeline or a request calls it."""
    worths: Callable[[Sequence[BranchRanking], float], list[Sequence[Worth]]]
    """Rankings in name order and `k` -> for each ranking the worth of each of its ids, in order."""
    best: Callable[[float], float]
    """The highest possible normalised value; the lowest is 0."""
    single_hit: Callable[[float], float]
    """The value of the only hit of a list."""
    all_equal: Callable[[float, int], float]
    """The value at a rank (the second argument) of a list whose scores are all equal."""
    absent: float = 0.0
    """The value of a document that the branch did not find."""
    better_rank_never_lowers: bool = True
    """Whether a document that rises in one branch never gets a lower place."""
