"""Reciprocal rank fusion inside each group of branches first, and then across the groups.

Branches that share an encoder agree because they share it.  Flat fusion counts that agreement twice, and an identifier
that only the lexical branch finds gets a low place.  Here a group counts as one branch: its weight is the mean of its
branches' weights, and it adds weight / (k + rank of the document in the group's own fusion).

A branch of weight 0 is ignored, also in the mean.  A branch that did not answer counts in the mean, so that its failure
does not change the weight of the others.

A document that rises in a branch never loses score.  It can still lose a place: the document that it passed falls inside
the group, which lets a third document rise there.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from statistics import fmean

from fusion.methods import rrf
from fusion.order import best_first
from models.fusion_method import BranchRanking, Method, Worth


def _group_fusion(members: Sequence[BranchRanking], k: float) -> dict[str, tuple[float, float]]:
    """For each id: its fused score inside the group, and 1 / (k + its rank by that score)."""
    parts: dict[str, list[float]] = {}
    for member, row in zip(members, rrf.worths(members, k), strict=True):
        for id_, (weight, normalised) in zip(member.ids, row, strict=True):
            parts.setdefault(id_, []).append(weight * normalised)
    ordered = best_first({id_: fsum(part) for id_, part in parts.items()})
    return {id_: (score, rrf.reciprocal_rank(k, rank)) for rank, (id_, score) in enumerate(ordered, start=1)}


def worths(rankings: Sequence[BranchRanking], k: float) -> list[Sequence[Worth]]:
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

    table: list[Sequence[Worth]] = []
    for ranking, alone in zip(rankings, rrf.worths(rankings, k), strict=True):
        if ranking.weight <= 0 or len(groups[ranking.group]) == 1:
            table.append(alone)
            continue
        group_weight, group = weights[ranking.group], fused[ranking.group]
        row = []
        for id_, (weight, normalised) in zip(ranking.ids, alone, strict=True):
            score, in_group = group[id_]
            share = weight * normalised / score if score else 0.0
            row.append(Worth(group_weight * share, in_group))
        table.append(row)
    return table


METHOD = Method(
    name="rrf-grouped",
    worths=worths,
    best=rrf.reciprocal_rank,
    single_hit=rrf.reciprocal_rank,
    all_equal=rrf.reciprocal_rank,
    better_rank_never_lowers=False,
)
