"""Several texts of one question in one branch, brought together into one ranking on the branch's own scale.

Never by reciprocal ranks: fused inside a branch they would destroy the scores that other methods need.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from chorale_client.request import Variant

from models.hits import Hit, Ranking

LEXICAL = frozenset({"keyword", "entity"})
"""The kinds of variants that BM25 takes."""
DENSE = frozenset({"semantic"})
"""Those that the dense branches take."""

VARIANT_WEIGHT = 0.5
"""Beside the question's own text, which has 1; whatever replaces that has 1 too."""


def branch_texts(text: str, variants: Sequence[Variant], kinds: Collection[str]) -> dict[str, float]:
    """What a branch that takes `kinds` searches for this question: each text once, with its weight.

    A variant without a text replaces nothing.
    """
    taken = [variant for variant in variants if variant.kind in kinds and variant.text.strip()]
    texts = {} if any(variant.replace for variant in taken) else {text: 1.0}
    for variant in sorted(taken, key=lambda variant: not variant.replace):
        texts.setdefault(variant.text, 1.0 if variant.replace else VARIANT_WEIGHT)
    return texts


def merged_lexical(rankings: Sequence[Ranking], weights: Sequence[float]) -> Ranking:
    """BM25: each ranking's scores by its best one, summed with its weight.

    On the scale of the first ranking that has hits: a passage that is best in all of them keeps its top score there.
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
    """Each passage by its best cosine."""
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
    # How many match any of the texts is not known.
    return Ranking(
        tuple(hits[passage]._replace(score=scores[passage]) for passage in order),
        warnings=warnings,
        texts={name: text for ranking in rankings for name, text in ranking.texts.items()},
    )
