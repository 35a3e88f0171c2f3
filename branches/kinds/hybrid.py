"""The `hybrid` kind: text and vector in one question, fused by the store itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chorale_client.words import Stage

from config.hybrid import HybridOptions
from models.errors import NotConfigured
from models.hits import Ranking
from search.protocol import Fuses

if TYPE_CHECKING:
    from branches.part import Part


def search_hybrid(part: Part) -> list[Ranking]:
    """The questions as they are: a store that fuses takes one text and one vector."""
    if not isinstance(part.store, Fuses):
        raise NotConfigured(f"the store {part.branch.store!r} cannot search text and vector in one")
    options = HybridOptions(**part.branch.options)
    vectors = part.embed([{text: 1.0} for text in part.texts])
    started_s = part.clock()
    rankings = part.store.search_hybrid(
        part.request.namespace,
        part.texts,
        vectors,
        alpha=options.alpha,
        fusion=options.fusion,
        depth=part.branch.depth,
        filters=part.request.filters,
        exclude_ids=part.request.exclude_ids,
        timeout_s=part.left_s,
    )
    part.timed(Stage.SEARCH, started_s, f"alpha {options.alpha:g}, {options.fusion}")
    return rankings
