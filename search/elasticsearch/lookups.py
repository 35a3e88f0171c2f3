"""Reading by id: texts, vectors, revisions, counts, and all entries of a document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elasticsearch import Elasticsearch

from models.batching import distinct_in_batches
from models.documents import PassageText, Vector
from search.deadline import Deadline
from search.elasticsearch.connection import Connection, IndexCall
from search.elasticsearch.failures import failure, readable
from search.elasticsearch.filter_conditions import Clause
from search.elasticsearch.index_layout import passage_key, vector_from
from search.elasticsearch.searching import MOST_HITS, found_in, hits_only, msearch

_AT_ONCE = 500
PASSAGES: Clause = {"exists": {"field": "passage_id"}}
_DOCUMENTS: Clause = {"exists": {"field": "revision"}}


@dataclass(frozen=True, slots=True)
class Stored:
    """One entry of an index: a passage, or the record of a document (with an empty passage id)."""

    document_id: str
    passage_id: str
    digest: str


def texts(call: IndexCall, passage_ids: Sequence[str]) -> dict[str, PassageText]:
    fields = ("passage_id", "document_id", "title", "heading", "body", "metadata")
    return {
        found["passage_id"]: PassageText(
            found["passage_id"],
            found["document_id"],
            found["title"],
            found["heading"],
            found["body"],
            json.loads(found["metadata"]),
        )
        for found in by_id(call, passage_ids, fields)
    }


def vectors(call: IndexCall, passage_ids: Sequence[str]) -> dict[str, Vector]:
    return {
        found["passage_id"]: vector_from(found["vector_bytes"])
        for found in by_id(call, passage_ids, ("passage_id", "vector_bytes"))
        if "vector_bytes" in found
    }


def revisions(call: IndexCall, source: str | None) -> dict[str, str]:
    wanted: list[Clause] = [_DOCUMENTS]
    if source is not None:
        wanted.append({"term": {"source": source}})
    found = scan(call, wanted, ("document_id", "revision"))
    return {fields["document_id"][0]: fields["revision"][0] for fields in found}


def stored(call: IndexCall, document_ids: Sequence[str]) -> Iterator[Stored]:
    """All entries of some documents after a refresh, including those that a killed writer left."""
    for part in distinct_in_batches(document_ids, _AT_ONCE):
        of_documents: list[Clause] = [{"terms": {"document_id": part}}]
        for fields in scan(call, of_documents, ("document_id", "passage_id", "digest")):
            yield Stored(fields["document_id"][0], fields.get("passage_id", [""])[0], fields["digest"][0])


def counts(connection: Connection, deadline: Deadline) -> dict[str, tuple[int, int]]:
    """Numbers of documents and passages by index; an empty index is left out."""
    wanted = {
        "indices": {
            "terms": {"field": "_index", "size": MOST_HITS},
            "aggs": {"documents": {"filter": _DOCUMENTS}, "passages": {"filter": PASSAGES}},
        }
    }

    indices = f"{connection.endpoint.prefix}-*"
    answer = connection.ask(lambda client: client.search(index=indices, size=0, aggs=wanted), deadline)
    with readable(connection.address):
        return {
            found["key"]: (found["documents"]["doc_count"], found["passages"]["doc_count"])
            # Without any index the answer has no aggregations.
            for found in answer.get("aggregations", {"indices": {"buckets": []}})["indices"]["buckets"]
        }


def by_id(call: IndexCall, passage_ids: Sequence[str], fields: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    for part in list(distinct_in_batches(passage_ids, _AT_ONCE)) or [[]]:
        # Even without ids the index is asked, so that an unknown namespace is a failure.
        keys = [passage_key(passage_id) for passage_id in part] or ["-"]

        def get(client: Elasticsearch, keys: list[str] = keys) -> Any:
            answer = client.mget(index=call.namespace.index, ids=keys, source_includes=list(fields))
            with readable(call.address):
                for one in answer["docs"]:
                    if "error" in one:
                        raise failure(call.address, 503, one)
            return answer

        with readable(call.address):
            found = [one["_source"] for one in call.ask(get)["docs"] if one.get("found")]
        yield from found


def scan(call: IndexCall, clauses: Sequence[Clause], fields: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """The fields of all matches, page by page, in the order of document and passage ids."""
    body: dict[str, Any] = {
        **hits_only(fields),
        "query": {"bool": {"filter": list(clauses)}},
        "sort": [{"document_id": "asc"}, {"passage_id": {"order": "asc", "missing": "_first"}}],
        "size": MOST_HITS,
    }
    while True:
        hits = found_in(msearch(call, {0: body})[0])
        for hit in hits:
            yield hit["fields"]
        if len(hits) < MOST_HITS:
            return
        body["search_after"] = hits[-1]["sort"]
