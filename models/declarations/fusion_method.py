"""What every fusion method declares and promises.

The fused score of a document is the sum, over the branches that found it, of weight x normalised.  A hit has both values,
so that its score can be recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

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
    floor: float | None = None
    """The lowest score that any document can have; None if there is none, or if it is not known."""
    n_retrieved: int | None = None
    """The branch retrieved the first `n_retrieved` of `ids`, and only scored the others (`fusion.rankings`); None: it retrieved all."""
    kind: str | None = None
    """`bm25`, `vector`, …; None: the same as `name`."""
    scores: str | None = None
    """`bm25` or `rank`, if the branch declares what its scores are."""
    half: float | None = None
    """The score that the method `bounded` gives .5; None if none is declared."""
    more_weight: Mapping[str, float] | None = None
    """By id, what is added to the weight: a document with the question's identifiers whole counts more."""


class Contribution(NamedTuple):
    """What a branch's hit adds to the fused score of its document: weight x normalised."""

    weight: float
    normalised: float


ContributionFunction: TypeAlias = Callable[[Sequence[BranchRanking], float], list[Sequence[Contribution]]]
"""Rankings in name order and `k` -> for each ranking the contribution of each of its ids, in order."""


@dataclass(frozen=True, slots=True)
class Method:
    """A fusion method and what it declares about its normalised values, all at a given `k`."""

    name: str
    """What a pipeline or a request calls it."""
    contributions: ContributionFunction
    best: Callable[[float], float]
    """The highest possible normalised value; the lowest is 0."""
    single_hit: Callable[[float], float]
    """The value of the only hit of a list, at weight 1 and score 1."""
    all_equal: Callable[[float, int], float]
    """The value at a rank (the second argument) of a list whose scores are all 1, at weight 1."""
    absent: float = 0.0
    """The value of a document that the branch did not find."""
    better_rank_never_lowers: bool = True
    """Whether a document that rises in one branch never gets a lower place."""
    uses_scores: bool = False
    """Whether scores are completed where the configuration wants that.  False for methods that use ranks, and for those that
    rank as another system does."""
    weighs_by_language: bool = False
    """Whether the weight of a dense branch is multiplied by the reliability of its encoder in the namespace's language
    (`fusion.rankings.reliability`).  False for those that rank as another system does."""
    is_scale_free: bool = True
    """Whether the order stays when all weights are multiplied by the same number."""
    undeclared_weight: float = 1.0
    """The weight of a branch for which neither pipeline nor request declares one."""
