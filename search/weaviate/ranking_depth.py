"""Where a ranking ends: after the passage that brings its `depth`-th document, ties by passage id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from models.hits import Hit

MOST_HITS = 10_000
"""Weaviate's QUERY_MAXIMUM_RESULTS: a ranking of more passages is cut there."""

_MORE = 16


async def best(
    search: Callable[[int], Awaitable[list[Hit]]], depth: int, *, least_hits: int = 0
) -> tuple[tuple[Hit, ...], int | None]:
    """The hits of the best `depth` documents, and how many documents match in all where that came to be known.

    `search` is asked for more and more passages, from `least_hits` on, until none that is missing could belong to
    them.
    """
    limit = min(max(2 * depth + _MORE, least_hits), MOST_HITS)
    while True:
        found = await search(limit)
        is_all = len(found) < limit
        hits = cut(found, depth, is_all=is_all or limit == MOST_HITS)
        if hits is not None:
            return hits, len({hit.document_id for hit in found}) if is_all else None
        limit = min(4 * limit, MOST_HITS)


def cut(found: Sequence[Hit], depth: int, *, is_all: bool) -> tuple[Hit, ...] | None:
    """None where passages beyond those found could belong to the ranking."""
    ordered = sorted(found, key=lambda hit: (-hit.score, hit.passage_id))
    seen: set[str] = set()
    for size, hit in enumerate(ordered, start=1):
        seen.add(hit.document_id)
        if len(seen) == depth:
            return tuple(ordered[:size]) if is_all or hit.score > ordered[-1].score else None
    return tuple(ordered) if is_all else None
