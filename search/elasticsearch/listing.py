"""Listing documents by their metadata: reads all that match and sorts them here.

The mapping has no field for metadata, so no server can sort by it.  A listing therefore takes time in proportion to
what its filters let through: about ten thousand documents a second.
"""

from __future__ import annotations

import json

from models.hits import Hit, Ranking
from search.elasticsearch.connection import IndexCall
from search.elasticsearch.filter_conditions import conditions
from search.elasticsearch.lookups import PASSAGES, by_id, scan
from search.elasticsearch.searching import SHOWN, first_round, hit_of
from search.listing_order import listed
from search.protocol import Search


def list_documents(call: IndexCall, search: Search, *, order_by: str, descending: bool) -> Ranking:
    """The first passage by id stands for a document."""
    asked = conditions(search)
    _, warnings = first_round(call, {}, asked)
    if warnings:
        return Ranking((), 0, warnings)
    first: dict[str, Hit] = {}
    for fields in scan(call, [PASSAGES, *asked.clauses], SHOWN):
        hit = hit_of(fields, 0.0)
        first.setdefault(hit.document_id, hit)
    names = [hit.passage_id for hit in first.values()]
    metadata = {
        found["document_id"]: json.loads(found["metadata"])
        for found in by_id(call, names, ("document_id", "metadata"))
    }
    call.deadline.check()
    order = listed(list(metadata.items()), order_by, descending=descending)
    documents = list(metadata)
    hits = tuple(first[documents[place]] for place in order[: search.depth])
    return Ranking(hits, len(documents))
