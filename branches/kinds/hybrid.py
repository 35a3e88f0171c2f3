"""The `hybrid` kind: text and vector in one search, fused by the store."""

from __future__ import annotations

from typing import Literal

from chorale_client.words import Stage
from pydantic import Field

from branches.part import Part
from models.declared import Declared
from models.errors import NotConfigured
from models.extensions import BranchKind
from models.hits import Ranking
from search.protocol import Fuses


class HybridOptions(Declared):
    alpha: float = Field(0.75, ge=0, le=1)
    """Weight of the vectors; BM25 has the rest.  0.75 is Weaviate's default."""
    fusion: Literal["relative", "ranked"] = "relative"
    """`relative`: by scores, scaled between the lowest and the highest; `ranked`: by ranks."""


def search_hybrid(part: Part) -> list[Ranking]:
    """Variants are not searched: a store that fuses takes one text and one vector."""
    if not isinstance(part.store, Fuses):
        raise NotConfigured(f"the store {part.branch.store!r} cannot search text and vector in one")
    options = HybridOptions(**part.branch.options)
    vectors = part.embed([{text: 1.0} for text in part.texts])
    started_s = part.clock()
    rankings = part.store.search_hybrid(
        part.request.namespace,
        part.texts,
        vectors,
        part.search(part.branch.depth),
        alpha=options.alpha,
        fusion=options.fusion,
    )
    part.timed(Stage.SEARCH, started_s, f"alpha {options.alpha:g}, {options.fusion}")
    return rankings


KIND = BranchKind(
    search_hybrid, options=HybridOptions, needs=frozenset({"questions"}), asks_http=False, merges=True
)
