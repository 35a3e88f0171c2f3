"""Collapses a branch's passages into documents: the best passage represents its document; ranks start again at 1.

Branches often find different passages of one document.  Fused by passage they would not agree, and a long document
could fill a branch.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from models.hits import Hit, Ranking

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
