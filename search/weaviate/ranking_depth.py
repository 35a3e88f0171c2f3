"""Asking Weaviate for more and more passages until a ranking has enough documents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from models.hits import Hit
from search.ranking_end import count_documents, cut, is_settled

MOST_HITS = 10_000
"""Weaviate's QUERY_MAXIMUM_RESULTS: a ranking of more passages is cut there."""

_MORE = 16


async def best(
    search: Callable[[int], Awaitable[list[Hit]]], depth: int, *, least_hits: int = 0
) -> tuple[tuple[Hit, ...], int | None]:
    """The hits of the best `depth` documents, and the number of all matching documents if it became known.

    `search` is asked for more and more passages, at first at least `least_hits`, until no missing passage could
    belong to the ranking.
    """
    limit = min(max(2 * depth + _MORE, least_hits), MOST_HITS)
    while True:
        found = await search(limit)
        is_all = len(found) < limit
        if is_all or limit == MOST_HITS or is_settled(found, depth):
            return cut(found, depth), count_documents(found) if is_all else None
        limit = min(4 * limit, MOST_HITS)
