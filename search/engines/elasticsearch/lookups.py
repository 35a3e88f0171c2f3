"""Listing what an index holds: the passages and records of some documents, or of all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from models.batching import distinct_in_batches
from search.engines.elasticsearch.connection import DialectCall
from search.engines.elasticsearch.failures import readable
from search.engines.elasticsearch.filter_conditions import Clause
from search.engines.elasticsearch.searching import MOST_HITS, hits_only, msearch, raw_hits
from search.protocol import Entry

_AT_ONCE = 500


class Stored(NamedTuple):
    document_id: str
    passage_id: str | None
    """None for the record of the document."""
    digest: str


def entries(call: DialectCall) -> Iterator[Entry]:
    with readable(call.server):
        for fields in _scan(call, {"match_all": {}}, Entry._fields):
            yield Entry(*fields)


def stored(call: DialectCall, document_ids: Sequence[str]) -> Iterator[Stored]:
    """All entries of some documents after a refresh, including those that a killed writer left."""
    for part in distinct_in_batches(document_ids, _AT_ONCE):
        yield from (
            Stored(*fields) for fields in _scan(call, {"terms": {"document_id": part}}, Stored._fields)
        )


def _scan(call: DialectCall, clause: Clause, fields: Sequence[str]) -> Iterator[Sequence[Any]]:
    """The fields of each match, page by page, in the order of document and passage ids; None for a field that is missing."""
    body: dict[str, Any] = {
        **hits_only(fields),
        "query": {"bool": {"filter": [clause]}},
        "sort": [{"document_id": "asc"}, {"passage_id": {"order": "asc", "missing": "_first"}}],
        "size": MOST_HITS,
    }
    while True:
        # Each page has the time of one call, however many pages there are.
        call = replace(call, deadline=call.connection.deadline(call.connection.endpoint.write_timeout_s))
        hits = raw_hits(msearch(call, {0: body})[0])
        for hit in hits:
            yield [hit["fields"].get(name, [None])[0] for name in fields]
        if len(hits) < MOST_HITS:
            return
        body["search_after"] = hits[-1]["sort"]
