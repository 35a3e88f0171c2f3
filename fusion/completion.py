"""Completes rankings before their scores are fused: each branch also scores the documents that only other branches found.

Without it, a document that a branch did not find would need an invented score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from models.fusion_method import BranchRanking
from models.hits import Hit

Scores = Mapping[str, Mapping[str, float]]
"""Scores by branch, then by passage id."""


def unscored(rankings: Sequence[BranchRanking]) -> dict[str, dict[str, list[Hit]]]:
    """For each branch with hits, the documents that only others found, with the hits of the others.

    A branch of weight 0 scores nothing, and brings no documents.
    """
    weighty = [ranking for ranking in rankings if ranking.weight > 0 and ranking.ids]
    found: dict[str, list[Hit]] = {}
    for ranking in sorted(weighty, key=lambda ranking: ranking.name):
        for id_, hit in zip(ranking.ids, ranking.hits, strict=True):
            found.setdefault(id_, []).append(hit)
    missing = {}
    for ranking in weighty:
        own = set(ranking.ids)
        missing[ranking.name] = {id_: hits for id_, hits in found.items() if id_ not in own}
    return missing


def completed(rankings: Sequence[BranchRanking], scores: Scores) -> list[BranchRanking]:
    """The rankings with every document that any of them has; `found` tells the branch's own hits.

    Of a document's passages the one with the best of `scores` stands for it.  A document that has none gets the branch's
    `floor` or, if the branch has none, the score of its last hit: it cannot have more.
    """
    missing = unscored(rankings)
    whole = []
    for ranking in rankings:
        if not (others := missing.get(ranking.name)):
            whole.append(ranking)
            continue
        known = scores.get(ranking.name, {})
        least = ranking.hits[-1].score if ranking.floor is None else ranking.floor
        added = {id_: _best(hits, known, least) for id_, hits in others.items()}
        ids = sorted(added, key=lambda id_: (-added[id_].score, id_))
        whole.append(
            replace(
                ranking,
                ids=(*ranking.ids, *ids),
                hits=(*ranking.hits, *(added[id_] for id_ in ids)),
                found=len(ranking.ids),
            )
        )
    return whole


def _best(hits: Sequence[Hit], known: Mapping[str, float], least: float) -> Hit:
    scored = [hit._replace(score=known.get(hit.passage_id, least)) for hit in hits]
    return min(scored, key=lambda hit: (-hit.score, hit.passage_id))
