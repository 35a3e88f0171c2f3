"""Reading by id: vectors, texts, counts, revisions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from weaviate.classes.query import Filter
from weaviate.collections.classes.filters import FilterReturn

from models.batching import distinct_in_batches
from models.documents import NamespaceState, PassageText, Vector
from search.weaviate.document_objects import BUCKETS, passage_uuid, source_uuid
from search.weaviate.namespace_records import Namespace
from search.weaviate.schema import MOST_RESULTS, Objects

_AT_ONCE = 200
_LISTED_ABOUT = 4_000


async def vectors(held: Objects, passage_ids: Sequence[str]) -> dict[str, Vector]:
    found = await _by_id(held, passage_ids, ["passage_id"], with_vectors=True)
    return {
        one.properties["passage_id"]: np.asarray(one.vector["default"], np.float32)
        for one in found
        if one.vector.get("default")
    }


async def texts(held: Objects, passage_ids: Sequence[str]) -> dict[str, PassageText]:
    fields = ["passage_id", "document_id", "title", "heading", "text", "metadata"]
    found = [one.properties for one in await _by_id(held, passage_ids, fields)]
    return {
        one["passage_id"]: PassageText(
            one["passage_id"],
            one["document_id"],
            one.get("title") or "",
            one.get("heading") or "",
            one.get("text") or "",
            json.loads(one.get("metadata") or "{}"),
        )
        for one in found
    }


async def state(namespace: Namespace, held: Objects) -> NamespaceState:
    documents, passages = await asyncio.gather(
        *(count(held, Filter.by_property(name).equal(True)) for name in ("is_head", "is_passage"))
    )
    return NamespaceState(namespace.name, documents, passages, namespace.generation, namespace.manifest)


async def count(held: Objects, where: FilterReturn) -> int:
    return (await held.aggregate.over_all(filters=where, total_count=True)).total_count or 0


async def revisions(held: Objects, source: str | None) -> dict[str, str]:
    where = Filter.by_property("is_head").equal(True)
    if source is not None:
        # Only heads have a source.
        where = Filter.by_property("source").equal(source_uuid(source))
    return {
        one["document_id"]: one.get("revision") or ""
        for one in await heads(held, where, ["document_id", "revision"])
    }


async def heads(held: Objects, where: FilterReturn, properties: Sequence[str]) -> list[Mapping[str, Any]]:
    """The properties of all objects that pass the filter, which must let only heads pass.

    Lists in parts by a hash of the document's id, because Weaviate's cursor has no filters.
    """
    found: list[Mapping[str, Any]] = []
    parts = await count(held, where) // _LISTED_ABOUT + 1
    bounds = [round(part) for part in np.linspace(0, BUCKETS, parts + 1)]
    bucket = Filter.by_property("bucket")
    waiting = list(pairwise(bounds))
    while waiting:
        first, end = waiting.pop()
        part = await held.query.fetch_objects(
            filters=where & bucket.greater_or_equal(first) & bucket.less_than(end),
            limit=MOST_RESULTS,
            return_properties=[*properties],
        )
        if len(part.objects) == MOST_RESULTS and end - first > 1:
            middle = (first + end) // 2
            waiting += [(first, middle), (middle, end)]
            continue
        found += [one.properties for one in part.objects]
    return found


async def _by_id(
    held: Objects, passage_ids: Sequence[str], properties: list[str], *, with_vectors: bool = False
) -> list[Any]:
    parts = await asyncio.gather(
        *(
            held.query.fetch_objects_by_ids(
                [passage_uuid(name) for name in part],
                limit=len(part),
                include_vector=with_vectors,
                return_properties=properties,
            )
            for part in distinct_in_batches(passage_ids, _AT_ONCE)
        )
    )
    return [one for part in parts for one in part.objects]
