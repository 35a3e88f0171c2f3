"""The end of a ranking of a server's hits: the passage that brings the `depth`-th different document."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from models.hits import Hit


def cut(hits: Collection[Hit], depth: int) -> tuple[Hit, ...]:
    """The hits of the best `depth` documents, best first; equal scores are ordered by passage id."""
    ordered = sorted(hits, key=lambda hit: (-hit.score, hit.passage_id))
    seen: set[str] = set()
    for size, hit in enumerate(ordered, start=1):
        seen.add(hit.document_id)
        if len(seen) == depth:
            return tuple(ordered[:size])
    return tuple(ordered)


def is_settled(hits: Sequence[Hit], depth: int) -> bool:
    """Whether every passage that was not fetched, which scores no higher than the worst hit, comes after the end."""
    ranking = cut(hits, depth)
    return count_documents(ranking) == depth and ranking[-1].score > min(hit.score for hit in hits)


def count_documents(hits: Collection[Hit]) -> int:
    return len({hit.document_id for hit in hits})
