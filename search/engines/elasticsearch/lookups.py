"""Listing what an index holds: the passages and records of some documents, or of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from models.batching import distinct_in_batches
from search.engines.elasticsearch.connection import IndexCall
from search.engines.elasticsearch.failures import readable
from search.engines.elasticsearch.filter_conditions import Clause
from search.engines.elasticsearch.searching import MOST_HITS, found_in, hits_only, msearch
from search.protocol import Entry

_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Stored:
    """One entry of an index: a passage, or the record of a document (with an empty passage id)."""

    document_id: str
    passage_id: str
    digest: str


def entries(call: IndexCall) -> Iterator[Entry]:
    with readable(call.server):
        for fields in _scan(call, {"match_all": {}}, ("document_id", "passage_id", "revision")):
            passage_id, revision = (fields.get(name, [None])[0] for name in ("passage_id", "revision"))
            yield Entry(fields["document_id"][0], passage_id, revision)


def stored(call: IndexCall, document_ids: Sequence[str]) -> Iterator[Stored]:
    """All entries of some documents after a refresh, including those that a killed writer left."""
    for part in distinct_in_batches(document_ids, _AT_ONCE):
        of_documents = {"terms": {"document_id": part}}
        for fields in _scan(call, of_documents, ("document_id", "passage_id", "digest")):
            yield Stored(fields["document_id"][0], fields.get("passage_id", [""])[0], fields["digest"][0])


def _scan(call: IndexCall, clause: Clause, fields: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """The fields of all matches, page by page, in the order of document and passage ids."""
    body: dict[str, Any] = {
        **hits_only(fields),
        "query": {"bool": {"filter": [clause]}},
        "sort": [{"document_id": "asc"}, {"passage_id": {"order": "asc", "missing": "_first"}}],
        "size": MOST_HITS,
    }
    while True:
        # Each page has the time of one call, however many pages there are.
        call = replace(call, deadline=call.connection.deadline())
        hits = found_in(msearch(call, {0: body})[0])
        for hit in hits:
            yield hit["fields"]
        if len(hits) < MOST_HITS:
            return
        body["search_after"] = hits[-1]["sort"]
