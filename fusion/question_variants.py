"""Merges the rankings of several texts of a question in one branch, on the branch's own scale.

Reciprocal ranks are not used here: they would destroy the scores that other fusion methods need.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from chorale_client.request import Variant

from models.hits import Hit, Ranking

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
    taken = [variant for variant in variants if variant.kind in kinds and variant.text.strip()]
    texts = {} if any(variant.replace for variant in taken) else {text: 1.0}
    for variant in sorted(taken, key=lambda variant: not variant.replace):
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
