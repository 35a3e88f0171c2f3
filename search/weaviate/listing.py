"""Listing documents by their metadata: reads all that match and sorts them here.

Metadata has no properties of its own (see `search.weaviate.filter_terms`), so Weaviate cannot sort by it.  A
listing therefore takes time in proportion to what its filters let through: about ten thousand documents a second.
"""

from __future__ import annotations

import json

from weaviate.classes.query import Filter

from models.hits import Ranking
from search.listing_order import listed
from search.protocol import Search
from search.weaviate.lookups import heads
from search.weaviate.schema import Objects
from search.weaviate.searching import SHOWN, hit_of, passing


async def list_documents(held: Objects, search: Search, *, order_by: str, descending: bool) -> Ranking:
    """A document's head is its first passage, unless it has no passages."""
    where, warnings = await passing(held, search)
    if warnings:
        return Ranking((), 0, warnings)
    for name in ("is_head", "is_passage"):
        where = where & Filter.by_property(name).equal(True)
    # A document that is being replaced may have two heads for a moment.
    found = {one["document_id"]: one for one in await heads(held, where, [*SHOWN, "metadata"])}
    known = [(name, json.loads(one.get("metadata") or "{}")) for name, one in found.items()]
    order = listed(known, order_by, descending=descending)
    hits = tuple(hit_of(found[known[place][0]], 0.0) for place in order[: search.depth])
    return Ranking(hits, len(found))
