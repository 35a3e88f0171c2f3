"""Fusion methods that rank as other systems do, at their default settings; PRESETS is the table.

Their `k` is fixed, scores are never completed, and weights stay as declared in any language.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import fsum

from fusion.methods import COMB_SUM, DBSF, RRF, by_score, min_max_values, new_contribution, values_of
from models.declarations.fusion_method import BranchRanking, Contribution, Method


def _preset(name: str, method: Method, *, k: float = 60.0, is_weighted: bool = True) -> Method:
    """`method` under another name, as another system has it: always with this `k`, with scores and weights as they came.

    With `is_weighted` False every branch has weight 1, unless it has 0 and takes no part.
    """

    def weighted(rankings: Sequence[BranchRanking]) -> Sequence[BranchRanking]:
        if is_weighted:
            return rankings
        return [replace(ranking, weight=float(ranking.weight > 0)) for ranking in rankings]

    return replace(
        method,
        name=name,
        contributions=lambda rankings, _: method.contributions(weighted(rankings), k),
        best=lambda _: method.best(k),
        single_hit=lambda _: method.single_hit(k),
        all_equal=lambda _, rank: method.all_equal(k, rank),
        uses_scores=False,
        weighs_by_language=False,
    )


PAPER = _preset("paper", RRF, is_weighted=False)
"""Reciprocal rank fusion as published (Cormack, Clarke and Büttcher, SIGIR 2009): sum of 1 / (60 + rank), without weights."""

ELASTIC = _preset("elastic", RRF)
"""Elasticsearch's `rrf` retriever: sum of weight / (rank_constant + rank), rank from 1, rank_constant 60.

Its `rank_window_size` is an option of the configuration.
"""

ELASTIC_LINEAR = _preset("elastic-linear", COMB_SUM)
"""Elasticsearch's `linear` retriever with the normalizer `minmax`: sum of weight x (score - lowest) / (highest - lowest).

Equal scores become 1.  Its `rank_window_size` is an option of the configuration.
"""

HAYSTACK = _preset("haystack", RRF)
"""Haystack's `DocumentJoiner` with `reciprocal_rank_fusion`: sum of weight / (61 + rank from 0)."""

NVIDIA = _preset("nvidia", RRF, k=10)
"""NeMo Retriever's default since August 2026 (NVIDIA/NeMo-Retriever#2427): sum of weight / (10 + rank), rank from 1.

Its weights are .8 for the vectors and .2 for BM25, with 50 candidates of each (`rank_window_size` of the configuration).
"""

WEAVIATE_RANKED = _preset("weaviate-ranked", RRF, k=59)
"""Weaviate's `rankedFusion`: sum of weight / (60 + rank from 0); `alpha` is the weight of the vectors, 1 - alpha that of BM25."""

WEAVIATE_RELATIVE = _preset("weaviate-relative", COMB_SUM)
"""Weaviate's `relativeScoreFusion`: sum of weight x (score - lowest) / (highest - lowest); equal scores become 1.

`alpha` is the weight of the vectors, 1 - alpha that of BM25; its default is .75.
"""

QDRANT_DBSF = _preset("qdrant-dbsf", DBSF, is_weighted=False)
"""Qdrant's `dbsf`: sum of (score - mean + 3 sigma) / 6 sigma, sigma with n - 1, without weights; equal scores become .5."""


def _qdrant(rankings: Sequence[BranchRanking], k: float) -> list[Sequence[Contribution]]:
    """Normalised: (1 + weight) / (rank + weight), which is 1 at rank 1.  Weight: weight / (1 + weight)."""
    return [_qdrant_row(ranking.weight, len(ranking.ids)) for ranking in rankings]


def _qdrant_row(weight: float, length: int) -> list[Contribution]:
    share = weight / (1 + weight)
    return [new_contribution((share, (1 + weight) / (rank + weight))) for rank in range(1, length + 1)]


QDRANT = Method(
    "qdrant",
    _qdrant,
    best=lambda k: 1.0,
    single_hit=lambda k: 1.0,
    all_equal=lambda k, rank: 2 / (rank + 1),
    is_scale_free=False,
)
"""Qdrant's `rrf`: sum of 1 / ((rank from 0 + 1) / weight + k - 1), k 2, which is weight / (rank + weight) with ranks from 1.

A weight stretches the ranks of its branch, so (1, 2) and (2, 4) rank differently; 1 is Qdrant's default.
"""

_LEAST = 0.001

_opensearch_unweighted = by_score(
    lambda scores, ranking: [value or _LEAST for value in min_max_values(scores, None)]
)


def _opensearch(rankings: Sequence[BranchRanking], k: float) -> list[Sequence[Contribution]]:
    """For each hit its normalised score; its weight is the branch's share of all weights."""
    total = fsum(ranking.weight for ranking in rankings) or 1.0
    return _opensearch_unweighted(
        [replace(ranking, weight=ranking.weight / total) for ranking in rankings], k
    )


OPENSEARCH = Method(
    "opensearch",
    _opensearch,
    best=lambda k: 1.0,
    single_hit=lambda k: 1.0,
    all_equal=lambda k, rank: 1.0,
    # The last hit gets .001; a hit that is only a little better can get less.
    better_rank_never_lowers=False,
)
"""OpenSearch's `normalization-processor`: `min_max`, then `arithmetic_mean`.

The mean is sum of weight x value / sum of all weights; a document that a branch did not find has the value 0 there.  A value of 0
that min-max gives becomes .001, and equal scores become 1.
"""

_FULL_BM25 = 20.0
_BOOST = 0.2


def _clamped(scores: Sequence[float], ranking: BranchRanking) -> list[float]:
    if ranking.scores == "rank":
        return [1 / rank for rank in range(1, len(scores) + 1)]
    full = _FULL_BM25 if (ranking.scores or ranking.kind or ranking.name) == "bm25" else 1.0
    return [0.0 if score <= 0 else 1.0 if score >= full else score / full for score in scores]


def _late_fusion(rankings: Sequence[BranchRanking], k: float) -> list[Sequence[Contribution]]:
    """For each hit its clamped score; its weight is the branch's share of the document's score, boost and cut included."""
    table = [values_of(ranking, _clamped) for ranking in rankings]
    finders: dict[str, list[BranchRanking]] = {}
    sums: dict[str, float] = {}
    for ranking, values in zip(rankings, table, strict=True):
        if ranking.weight > 0:
            for id_, value in zip(ranking.ids, values, strict=True):
                finders.setdefault(id_, []).append(ranking)
                sums[id_] = sums.get(id_, 0.0) + ranking.weight * value
    shares: dict[str, float] = {}
    for id_, found_by in finders.items():
        boost = 1 + min(1.0, _BOOST * len(found_by))
        factor = boost / fsum([ranking.weight for ranking in found_by])
        # Less where the score would exceed 1.
        shares[id_] = factor if factor * sums[id_] <= 1.0 else 1.0 / sums[id_]
    return [
        [
            new_contribution((shares.get(id_, 0.0) * ranking.weight, value))
            for id_, value in zip(ranking.ids, values, strict=True)
        ]
        for ranking, values in zip(rankings, table, strict=True)
    ]


LATE_FUSION = Method(
    "late-fusion",
    _late_fusion,
    best=lambda k: 1.0,
    single_hit=lambda k: 1.0,
    all_equal=lambda k, rank: 1.0,
    undeclared_weight=0.1,
)
"""Late fusion: the weighted mean over the sources that found a document, x (1 + .2 for each of them), cut at 1.

The score of BM25 / 20 is cut at 1, and other scores are clamped to 0-1; where a branch declares that it has none, 1 / rank takes their
place.  Weights are divided by those of the sources that found the
document; a branch without a declared weight has .1.  A source is a branch of a weight above 0, whatever its group, and no more than five
count.

A document with one strong source stands above one that a weak second source found too, because the mean falls.
"""

PRESETS = (
    *(ELASTIC, ELASTIC_LINEAR, HAYSTACK, LATE_FUSION, NVIDIA, OPENSEARCH, PAPER, QDRANT, QDRANT_DBSF),
    *(WEAVIATE_RANKED, WEAVIATE_RELATIVE),
)
