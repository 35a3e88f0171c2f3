"""Reading by name: vectors, texts, counts, revisions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from weaviate.classes.query import Filter

from models.documents import NamespaceState, PassageText, Vector
from models.weaviate_endpoint import WeaviateEndpoint
from search.weaviate import registry, schema
from search.weaviate.connection import Client
from search.weaviate.objects import BUCKETS, passage_uuid, source_uuid

_AT_ONCE = 200
_LISTED_AT_ONCE = 10_000
"""Weaviate's QUERY_MAXIMUM_RESULTS."""

_LISTED_ABOUT = 4_000
_TEXT = ["passage_id", "document_id", "title", "heading", "text", "metadata"]


async def vectors(
    client: Client, endpoint: WeaviateEndpoint, namespace: str, passage_ids: Sequence[str]
) -> dict[str, Vector]:
    found = await _by_id(client, endpoint, namespace, passage_ids, ["passage_id"], with_vectors=True)
    return {
        one.properties["passage_id"]: np.asarray(one.vector["default"], np.float32)
        for one in found
        if one.vector.get("default")
    }


async def texts(
    client: Client, endpoint: WeaviateEndpoint, namespace: str, passage_ids: Sequence[str]
) -> dict[str, PassageText]:
    found = await _by_id(client, endpoint, namespace, passage_ids, _TEXT)
    return {one.properties["passage_id"]: _passage_text(one.properties) for one in found}


async def states(client: Client, endpoint: WeaviateEndpoint) -> list[NamespaceState]:
    async def state(entry: registry.Entry) -> NamespaceState:
        held = schema.passages(client, endpoint, entry.name)
        documents, passages = await asyncio.gather(
            *(
                held.aggregate.over_all(filters=Filter.by_property(name).equal(True), total_count=True)
                for name in ("is_head", "is_passage")
            )
        )
        counts = documents.total_count or 0, passages.total_count or 0
        return NamespaceState(entry.name, *counts, entry.generation, entry.manifest)

    return list(await asyncio.gather(*map(state, await registry.listed(client, endpoint))))


async def revisions(
    client: Client, endpoint: WeaviateEndpoint, namespace: str, source: str
) -> dict[str, str]:
    """Listed in parts by the hash of the document's id: Weaviate's cursor knows no filters."""
    await registry.known(client, endpoint, namespace)
    held = schema.passages(client, endpoint, namespace)
    of_source = Filter.by_property("source").equal(source_uuid(source))
    count = (await held.aggregate.over_all(filters=of_source, total_count=True)).total_count or 0
    found: dict[str, str] = {}
    bounds = [round(part) for part in np.linspace(0, BUCKETS, count // _LISTED_ABOUT + 2)]
    bucket = Filter.by_property("bucket")
    waiting = list(pairwise(bounds))
    while waiting:
        first, end = waiting.pop()
        part = await held.query.fetch_objects(
            filters=of_source & bucket.greater_or_equal(first) & bucket.less_than(end),
            limit=_LISTED_AT_ONCE,
            return_properties=["document_id", "revision"],
        )
        if len(part.objects) == _LISTED_AT_ONCE and end - first > 1:
            middle = (first + end) // 2
            waiting += [(first, middle), (middle, end)]
            continue
        for one in part.objects:
            found[one.properties["document_id"]] = one.properties.get("revision") or ""
    return found


async def _by_id(
    client: Client,
    endpoint: WeaviateEndpoint,
    namespace: str,
    passage_ids: Sequence[str],
    properties: list[str],
    *,
    with_vectors: bool = False,
) -> list[Any]:
    await registry.known(client, endpoint, namespace)
    held = schema.passages(client, endpoint, namespace)
    parts = await asyncio.gather(
        *(
            held.query.fetch_objects_by_ids(
                [passage_uuid(name) for name in part],
                limit=len(part),
                include_vector=with_vectors,
                return_properties=properties,
            )
            for part in _parts(passage_ids)
        )
    )
    return [one for part in parts for one in part.objects]


def _parts(passage_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    names = tuple(dict.fromkeys(passage_ids))
    for first in range(0, len(names), _AT_ONCE):
        yield names[first : first + _AT_ONCE]


def _passage_text(held: dict[str, Any]) -> PassageText:
    return PassageText(
        held["passage_id"],
        held["document_id"],
        held.get("title") or "",
        held.get("heading") or "",
        held.get("text") or "",
        json.loads(held.get("metadata") or "{}"),
    )
