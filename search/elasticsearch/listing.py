"""Listing documents by their metadata: reads all that match and sorts them here.

The mapping has no field for metadata, so no server can sort by it.  A listing therefore takes time in proportion to
what its filters let through: about ten thousand documents a second.
"""

from __future__ import annotations

import json

from models.hits import Hit, Ranking
from search.deadline import Deadline
from search.elasticsearch.connection import Connection
from search.elasticsearch.filter_conditions import Conditions
from search.elasticsearch.index_layout import Namespace
from search.elasticsearch.lookups import PASSAGES, by_id, scan
from search.elasticsearch.searching import SHOWN, first_round, hit_of
from search.listing_order import listed


def list_documents(
    connection: Connection,
    namespace: Namespace,
    *,
    order_by: str,
    descending: bool,
    depth: int,
    asked: Conditions,
    deadline: Deadline,
) -> Ranking:
    """The first passage by id stands for a document."""
    _, warnings = first_round(connection, namespace, {}, asked, deadline)
    if warnings:
        return Ranking((), 0, warnings)
    first: dict[str, Hit] = {}
    for fields in scan(connection, namespace, [PASSAGES, *asked.alone], SHOWN, deadline):
        hit = hit_of(fields, 0.0)
        first.setdefault(hit.document_id, hit)
    names = [hit.passage_id for hit in first.values()]
    metadata = {
        found["document_id"]: json.loads(found["metadata"])
        for found in by_id(connection, namespace, names, ("document_id", "metadata"), deadline)
    }
    deadline.check()
    order = listed(list(metadata.items()), order_by, descending=descending)
    documents = list(metadata)
    hits = tuple(first[documents[place]] for place in order[:depth])
    return Ranking(hits, len(documents))
