"""TM2C2 (Bruch, Gai and Ingber, TOIS 2023): sum of weight x (score - m) / (highest - m), with the lowest possible score m.

m is the branch's `floor` (BM25: 0), and -1, the lowest cosine, for a branch that has none; if its last hit has less, that hit's score.
Unlike in min-max, a list's last hit is worth more than 0, and a longer list changes no value.  `k` has no effect.
"""

from __future__ import annotations

from fusion.by_score import by_score
from fusion.methods.min_max import normalised
from models.fusion_method import Method

_LOWEST_COSINE = -1.0

METHOD = Method(
    name="tm2c2",
    worths=by_score(
        lambda scores, ranking: normalised(scores, _LOWEST_COSINE if ranking.floor is None else ranking.floor)
    ),
    best=lambda k: 1.0,
    single_hit=lambda k: 1.0,
    all_equal=lambda k, rank: 1.0,
    uses_scores=True,
)
