"""The fusion methods: by ranks (RRF), and by scores that are normalised for each branch by itself.

The fused score of a document is the sum of weight x value over the branches.  METHODS is the table; each method declares the
range of its values.  `k` has no effect on a method by scores.  There a score that is NaN, infinite or beyond 1e100 has the
value 0, and the other scores are normalised without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from math import fsum, inf, isfinite, sqrt
from statistics import fmean

from fusion.candidates import best_first
from models.declarations.fusion_method import BranchRanking, Contribution, ContributionFunction, Method

# By ranks


def reciprocal_rank(k: float, rank: int = 1) -> float:
    return 1.0 / (k + rank)


@lru_cache(maxsize=256)
def _rrf_row(weight: float, k: float, length: int) -> tuple[Contribution, ...]:
    return tuple([Contribution(weight, reciprocal_rank(k, rank)) for rank in range(1, length + 1)])


def _rrf(rankings: Sequence[BranchRanking], k: float) -> list[Sequence[Contribution]]:
    """1 / (k + rank) for every id, with its branch's weight."""
    return [_rrf_row(ranking.weight, k, len(ranking.ids)) for ranking in rankings]


RRF = Method(
    "rrf",
    _rrf,
    best=reciprocal_rank,
    single_hit=reciprocal_rank,
    all_equal=reciprocal_rank,
    weighs_by_language=True,
)
"""Weighted reciprocal rank fusion: sum of weight / (k + rank).

Cormack, Clarke and Büttcher, SIGIR 2009; ranks start at 1; they found k = 60 good on all collections.
"""


def _group_fusion(members: Sequence[BranchRanking], k: float) -> dict[str, tuple[float, float]]:
    """For each id: its fused score inside the group, and 1 / (k + its rank by that score)."""
    parts: dict[str, list[float]] = {}
    for member, row in zip(members, _rrf(members, k), strict=True):
        for id_, (weight, normalised) in zip(member.ids, row, strict=True):
            parts.setdefault(id_, []).append(weight * normalised)
    ordered = best_first({id_: fsum(part) for id_, part in parts.items()})
    return {id_: (score, reciprocal_rank(k, rank)) for rank, (id_, score) in enumerate(ordered, start=1)}


def _rrf_grouped(rankings: Sequence[BranchRanking], k: float) -> list[Sequence[Contribution]]:
    """Normalised: 1 / (k + rank in the group).  Weight: the branch's share of its group's weight.

    The share is the branch's part of the document's fused score inside the group, so the contributions of a group's
    branches add up to group weight / (k + rank in the group).
    """
    groups: dict[str, list[BranchRanking]] = {}
    for ranking in rankings:
        if ranking.weight > 0:
            groups.setdefault(ranking.group, []).append(ranking)
    weights = {name: fmean(member.weight for member in members) for name, members in groups.items()}
    fused = {name: _group_fusion(members, k) for name, members in groups.items() if len(members) > 1}

    table: list[Sequence[Contribution]] = []
    for ranking, alone in zip(rankings, _rrf(rankings, k), strict=True):
        if ranking.weight <= 0 or len(groups[ranking.group]) == 1:
            table.append(alone)
            continue
        group_weight, group = weights[ranking.group], fused[ranking.group]
        row = []
        for id_, (weight, normalised) in zip(ranking.ids, alone, strict=True):
            score, in_group = group[id_]
            share = weight * normalised / score if score else 0.0
            row.append(Contribution(group_weight * share, in_group))
        table.append(row)
    return table


RRF_GROUPED = Method(
    "rrf-grouped",
    _rrf_grouped,
    best=reciprocal_rank,
    single_hit=reciprocal_rank,
    all_equal=reciprocal_rank,
    better_rank_never_lowers=False,
    weighs_by_language=True,
)
"""Reciprocal rank fusion inside each group of branches first, and then across the groups.

Branches that share an encoder agree because they share it.  Flat fusion counts that agreement twice, and an identifier
that only the lexical branch finds gets a low place.  Here a group counts as one branch: its weight is the mean of its
branches' weights, and it adds weight / (k + rank of the document in the group's own fusion).

A branch of weight 0 is ignored, also in the mean.  A branch that did not answer counts in the mean, so that its failure
does not change the weight of the others.

A document that rises in a branch never loses score.  It can still lose a place: the document that it passed falls inside
the group, which lets a third document rise there.
"""

# By scores

_LARGEST = 1e100

Normalise = Callable[[Sequence[float], BranchRanking], Sequence[float]]
"""The scores of a ranking, and the ranking -> the value of each score."""

new_contribution = partial(tuple.__new__, Contribution)
"""Makes a contribution of (weight, normalised) in half the time that `Contribution(…)` takes."""


def values_of(ranking: BranchRanking, normalise: Normalise) -> Sequence[float]:
    """The value of each hit."""
    scores = [hit.score for hit in ranking.hits]
    if sum(map(abs, scores)) <= _LARGEST:
        return normalise(scores, ranking)
    values = iter(normalise([score for score in scores if abs(score) <= _LARGEST], ranking))
    return [next(values) if abs(score) <= _LARGEST else 0.0 for score in scores]


def by_score(normalise: Normalise) -> ContributionFunction:
    """For each hit its normalised score, with its branch's weight."""

    def contributions(rankings: Sequence[BranchRanking], k: float) -> list[Sequence[Contribution]]:
        return [
            [new_contribution((ranking.weight, value)) for value in values_of(ranking, normalise)]
            for ranking in rankings
        ]

    return contributions


def _score_method(
    name: str, contributions: ContributionFunction, *, best: float = 1.0, equal: float = 1.0
) -> Method:
    """`best`: the highest value, inf if there is none; `equal`: the value of a list's only hit, or of equal scores."""
    return Method(
        name,
        contributions,
        best=lambda k: best,
        single_hit=lambda k: equal,
        all_equal=lambda k, rank: equal,
        better_rank_never_lowers=isfinite(best),
        uses_scores=True,
        weighs_by_language=True,
    )


def min_max_values(scores: Sequence[float], floor: float | None) -> list[float]:
    """The scores between 0 (the floor, or the lowest score) and 1 (the highest score)."""
    lowest, highest = min(scores, default=0.0), max(scores, default=0.0)
    if lowest == highest:
        return [1.0] * len(scores)
    if floor is not None and floor < lowest:
        lowest = floor
    return [(score - lowest) / (highest - lowest) for score in scores]


MIN_MAX = _score_method("min-max", by_score(lambda scores, ranking: min_max_values(scores, ranking.floor)))
"""Sum of weight x (score - lowest) / (highest - lowest).

`lowest` is the branch's `floor`, the lowest score that any document can have (BM25: 0), which Bruch, Gai and Ingber (TOIS
2023) call the theoretical minimum; a branch that has none takes the score of its last hit.  Hits with equal scores get 1.
"""

_LOWEST_COSINE = -1.0

TM2C2 = _score_method(
    "tm2c2",
    by_score(
        lambda scores, ranking: min_max_values(
            scores, _LOWEST_COSINE if ranking.floor is None else ranking.floor
        )
    ),
)
"""TM2C2 (Bruch, Gai and Ingber, TOIS 2023): sum of weight x (score - m) / (highest - m), with the lowest possible
score m.

m is the branch's `floor` (BM25: 0), and -1, the lowest cosine, for a branch that has none; if its last hit has less,
that hit's score.  Unlike min-max, the last hit of a list has more than 0, and a longer list changes no value.
"""


def _comb_sum_values(scores: Sequence[float], ranking: BranchRanking) -> list[float]:
    return min_max_values(scores, None)


COMB_SUM = _score_method("comb-sum", by_score(_comb_sum_values))
"""CombSUM (Fox and Shaw, TREC-2, 1994): sum of weight x (score - lowest) / (highest - lowest).

`lowest` is the score of the branch's last hit, also where the branch has a floor.  Hits with equal scores get 1.
"""


def _comb_mnz(rankings: Sequence[BranchRanking], k: float) -> list[Sequence[Contribution]]:
    """For each hit its normalised score; its weight is the branch's, times the number of branches that found the document."""
    finders = Counter(
        id_ for ranking in rankings if ranking.weight > 0 for id_ in ranking.ids[: ranking.n_retrieved]
    )
    return [
        [
            new_contribution((ranking.weight * finders[id_], value))
            for id_, value in zip(ranking.ids, values_of(ranking, _comb_sum_values), strict=True)
        ]
        for ranking in rankings
    ]


COMB_MNZ = _score_method("comb-mnz", _comb_mnz)
"""CombMNZ (Fox and Shaw, TREC-2, 1994): the sum of normalised scores times the number of branches that found the document.

Scores are normalised by min-max between the branch's own lowest and highest.  A branch counts if it found the document, whatever its
score, and has a weight above 0.
"""


def _mean_and_sigma(scores: Sequence[float]) -> tuple[float, float]:
    """Sigma has n - 1 in the denominator; it is 0 for one score, for equal scores and for less than 1e-160 between them."""
    mean = fsum(scores) / max(1, len(scores))
    if len(scores) < 2 or max(scores) == min(scores):
        return mean, 0.0
    return mean, sqrt(fsum([(score - mean) ** 2 for score in scores]) / (len(scores) - 1))


def dbsf_values(scores: Sequence[float]) -> list[float]:
    mean, sigma = _mean_and_sigma(scores)
    if not sigma:
        return [0.5] * len(scores)
    return [max(0.0, (score - mean) / (6 * sigma) + 0.5) for score in scores]


DBSF = _score_method("dbsf", by_score(lambda scores, _: dbsf_values(scores)), best=inf, equal=0.5)
"""Distribution-based score fusion: sum of weight x (score - mean + 3 sigma) / 6 sigma.

As in Qdrant, sigma has n - 1 in the denominator, and a list of one hit, or of equal scores, gives .5.  A value below
0 (a score more than 3 sigma below the mean) becomes 0; a value above 1 stays, because it shows a clear lead.

A document that a branch did not find adds nothing, so use it with `complete_scores`, where no document is left out.
"""


def z_score_values(scores: Sequence[float]) -> list[float]:
    _, sigma = _mean_and_sigma(scores)
    if not sigma:
        return [1.0] * len(scores)
    lowest = min(scores)
    return [(score - lowest) / sigma for score in scores]


Z_SCORE = _score_method("z-score", by_score(lambda scores, _: z_score_values(scores)), best=inf)
"""Fusion of standard scores: sum of weight x (score - lowest) / sigma; sigma has n - 1.

A standard score is (score - mean) / sigma.  It is counted from that of the branch's last hit, so that a document that the branch did not
find has 0, and not the mean.  Hits with equal scores get 1.
"""


def _bounded_values(scores: Sequence[float], ranking: BranchRanking) -> list[float]:
    half = max(scores, default=0.0) if ranking.half is None else ranking.half
    return [score / (score + half) if score > 0 else 0.0 for score in scores]


BOUNDED = _score_method("bounded", by_score(_bounded_values), equal=0.5)
"""Bounded scores: sum of weight x score / (score + half); a value shows how good a hit is by itself, and not in its list.

`half` is the score whose value is .5; a configuration declares it for each branch (`halves`), best as the median of the best scores of
a namespace.  A branch without one takes its own best score.  Scores below 0 have the value 0.
"""

METHODS = (BOUNDED, COMB_MNZ, COMB_SUM, DBSF, MIN_MAX, RRF, RRF_GROUPED, TM2C2, Z_SCORE)
