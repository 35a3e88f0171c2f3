"""Prepares the branches' rankings for their fusion.

A branch merges the rankings of a question's variants.  Passages are collapsed into documents: the best passage represents its
document.  Branches often find different passages of one document; fused by passage they would not agree, and a long document
could fill a branch.  With complete scores each branch also scores the documents that only other branches found, which would
otherwise need an invented score.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from models.declarations.fusion_method import BranchRanking
from models.hits import Hit, Ranking

if TYPE_CHECKING:
    from chorale_client.request import Variant

LEXICAL = frozenset({"keyword", "entity"})
"""The kinds of variants that BM25 searches."""
DENSE = frozenset({"semantic"})
"""The kinds of variants that dense branches search."""

VARIANT_WEIGHT = 0.5
"""Weight of a variant; the question's own text, or a variant that replaces it, has 1."""


def branch_texts(text: str, variants: Sequence[Variant], kinds: Collection[str]) -> dict[str, float]:
    """The weight of each text that a branch with variants of `kinds` searches for this question.

    A variant without text replaces nothing.
    """
    usable = [variant for variant in variants if variant.kind in kinds and variant.text.strip()]
    texts = {} if any(variant.replace for variant in usable) else {text: 1.0}
    for variant in sorted(usable, key=lambda variant: not variant.replace):
        texts.setdefault(variant.text, 1.0 if variant.replace else VARIANT_WEIGHT)
    return texts


def merged_lexical(rankings: Sequence[Ranking], weights: Sequence[float]) -> Ranking:
    """BM25: the weighted sum of each ranking's scores, divided by its best score.

    The result has the scale of the first ranking with hits: a passage that is best in all rankings keeps its score.
    """
    if len(rankings) == 1:
        return rankings[0]
    tops = [max((hit.score for hit in ranking.hits), default=0.0) for ranking in rankings]
    unit = next((top for top in tops if top > 0), 0.0) / math.fsum(weights)
    parts: dict[str, list[float]] = {}
    for ranking, top, weight in zip(rankings, tops, weights, strict=True):
        for hit in ranking.hits:
            parts.setdefault(hit.passage_id, []).append(weight * hit.score / top if top > 0 else 0.0)
    return _ranked(rankings, {passage: unit * math.fsum(parts[passage]) for passage in parts})


def merged_dense(rankings: Sequence[Ranking]) -> Ranking:
    """Each passage with its best cosine."""
    if len(rankings) == 1:
        return rankings[0]
    best: dict[str, float] = {}
    for ranking in rankings:
        for hit in ranking.hits:
            best[hit.passage_id] = max(hit.score, best.get(hit.passage_id, hit.score))
    return _ranked(rankings, best)


def _ranked(rankings: Sequence[Ranking], scores: Mapping[str, float]) -> Ranking:
    hits: dict[str, Hit] = {hit.passage_id: hit for ranking in rankings for hit in ranking.hits}
    order = sorted(hits, key=lambda passage: (-round(scores[passage], 12), passage))
    warnings = tuple(dict.fromkeys(line for ranking in rankings for line in ranking.warnings))
    # The number of documents that match any of the texts is unknown.
    return Ranking(
        tuple(hits[passage]._replace(score=scores[passage]) for passage in order),
        warnings=warnings,
        texts={name: text for ranking in rankings for name, text in ranking.texts.items()},
        known_words=rankings[0].known_words if rankings else None,
    )


_UNITS = {"document": "document_id", "passage": "passage_id"}


def unit_ids(hits: tuple[Hit, ...], fuse_by: str = "document") -> tuple[str, ...]:
    """For each hit the id of its document, or of its passage."""
    if fuse_by not in _UNITS:
        raise ValueError(f"unknown fuse_by: {fuse_by!r}; there are: {', '.join(_UNITS)}")
    if fuse_by == "document":
        return tuple([hit.document_id for hit in hits])
    return tuple([hit.passage_id for hit in hits])


def collapse_ranking(
    ranking: Ranking,
    depth: int | None = None,
    *,
    fuse_by: str = "document",
    exclude_ids: Collection[str] = (),
) -> Ranking:
    """The first hit of every document (or of every passage), at most `depth` hits.

    `exclude_ids` are document ids.  The other fields of the ranking do not change.
    """
    hits = ranking.hits
    if exclude_ids:
        hits = tuple([hit for hit in hits if hit.document_id not in exclude_ids])
    ids = unit_ids(hits, fuse_by)
    if len(set(ids)) < len(ids):
        # In reverse, so that an earlier hit overwrites a later one.
        best = dict(zip(reversed(ids), reversed(hits), strict=True))
        hits = tuple([best[id_] for id_ in dict.fromkeys(ids)])
    if depth is not None and len(hits) > depth:
        hits = hits[:depth]
    return ranking if hits is ranking.hits else replace(ranking, hits=hits)


Scores = Mapping[str, Mapping[str, float]]
"""Scores by branch, then by passage id."""


def unscored(rankings: Sequence[BranchRanking]) -> dict[str, dict[str, list[Hit]]]:
    """For each branch with hits, the documents that only others found, with the hits of the others.

    A branch of weight 0 scores nothing, and brings no documents.
    """
    weighty = [ranking for ranking in rankings if ranking.weight > 0 and ranking.ids]
    hits_of: dict[str, list[Hit]] = {}
    for ranking in sorted(weighty, key=lambda ranking: ranking.name):
        for id_, hit in zip(ranking.ids, ranking.hits, strict=True):
            hits_of.setdefault(id_, []).append(hit)
    missing = {}
    for ranking in weighty:
        own = set(ranking.ids)
        missing[ranking.name] = {id_: hits for id_, hits in hits_of.items() if id_ not in own}
    return missing


def completed(rankings: Sequence[BranchRanking], scores: Scores) -> list[BranchRanking]:
    """The rankings with every document that any of them has; `n_retrieved` is the number of the branch's own hits.

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
        added = {id_: _best_passage(hits, known, least) for id_, hits in others.items()}
        ids = sorted(added, key=lambda id_: (-added[id_].score, id_))
        whole.append(
            replace(
                ranking,
                ids=(*ranking.ids, *ids),
                hits=(*ranking.hits, *(added[id_] for id_ in ids)),
                n_retrieved=len(ranking.ids),
            )
        )
    return whole


def _best_passage(hits: Sequence[Hit], known: Mapping[str, float], least: float) -> Hit:
    scored = [hit._replace(score=known.get(hit.passage_id, least)) for hit in hits]
    return min(scored, key=lambda hit: (-hit.score, hit.passage_id))


KNOWN_SHARE = 0.65
"""The share of known words from which a language counts as known to the encoder."""
LEAST_SHARE = 0.03
"""The share of its weight that a dense branch keeps in any language."""
_POWER = 2


def reliability(known_words: float | None, *, by_rank: bool = False) -> float:
    """The factor on the weight of a dense branch: (known words / KNOWN)², between LEAST and 1; 1 if it was not
    measured.

    `by_rank`: for methods that use ranks, its square.  By ranks, the best hit of a branch counts as if it were
    relevant, however low its score is.  Chosen on three collections (docs/evidence/measurements.md).
    """
    if known_words is None:
        return 1.0
    factor = min(1.0, max(LEAST_SHARE, (known_words / KNOWN_SHARE) ** _POWER))
    return factor**2 if by_rank else factor
