"""Fuses rankings into candidates: everything that a branch with a weight above 0 found, best first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count, repeat
from math import fsum
from typing import NamedTuple

from fusion.order import best_first
from models.fusion_method import BranchRanking, Method, Worth
from models.hits import Hit


class Candidate(NamedTuple):
    """A fused document (or passage) before boosts."""

    score: float
    hit: Hit
    """One branch's hit, for the fields that boosts and folding read."""
    found: list[tuple[BranchRanking, int, Worth]]
    """The rankings that found it, by name: (ranking, place from 0, worth)."""


_new_candidate = partial(tuple.__new__, Candidate)


def _described(found: Sequence[tuple[BranchRanking, int, Worth]]) -> Hit:
    """The hit of the first branch with a content hash, else of the first branch."""
    for ranking, place, _ in found:
        hit = ranking.hits[place]
        if hit.content_hash is not None:
            return hit
    ranking, place, _ = found[0]
    return ranking.hits[place]


def fuse_rankings(rankings: Sequence[BranchRanking], method: Method, k: float) -> list[Candidate]:
    """Fused candidates, best first, ties by id; the order of `rankings` does not matter.

    Hits that only branches of weight 0 found are left out.
    """
    rankings = sorted(rankings, key=lambda ranking: ranking.name)
    found: dict[str, list[tuple[BranchRanking, int, Worth]]] = {}
    for ranking, row in zip(rankings, method.worths(rankings, k), strict=True):
        for id_, entry in zip(ranking.ids, zip(repeat(ranking), count(), row), strict=False):
            if id_ in found:
                found[id_].append(entry)
            else:
                found[id_] = [entry]
    scores = {
        # A sum is never minus zero, and neither is `x + 0.0`.
        id_: fsum([weight * normalised for _, _, (weight, normalised) in entries])
        if len(entries) > 1
        else entries[0][2][0] * entries[0][2][1] + 0.0
        for id_, entries in found.items()
    }
    candidates = []
    for id_, score in best_first(scores):
        entries = found[id_]
        # A method may give its last hit 0 whatever the weight of its branch.
        if score or any(weight > 0 for _, _, (weight, _) in entries):
            ranking, place, _ = entries[0]
            hit = ranking.hits[place]
            if hit.content_hash is None:
                hit = _described(entries)
            candidates.append(_new_candidate((score, hit, entries)))
    return candidates
