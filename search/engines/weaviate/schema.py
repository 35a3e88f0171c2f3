"""The collection of passages, with a tenant for each build of a namespace."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from functools import partial
from typing import Any

from weaviate.classes.config import (
    Configure,
    DataType,
    Property,
    Reconfigure,
    StopwordsPreset,
    Tokenization,
    VectorDistances,
)
from weaviate.classes.data import DataObject
from weaviate.classes.query import Filter
from weaviate.collections import CollectionAsync
from weaviate.collections.classes.filters import FilterReturn
from weaviate.exceptions import UnexpectedStatusCodeError

from models.declarations.engines import WeaviateEndpoint
from models.documents import Document, Manifest
from models.errors import BadIndex
from search.analysis import indexed_texts
from search.engines.weaviate.connection import Client
from search.protocol import Index
from search.served_fields import HIT_FIELDS, served_fields

Objects = CollectionAsync[Any, None]

MOST_RESULTS = 10_000
"""Weaviate's QUERY_MAXIMUM_RESULTS: no answer has more objects, and no deletion deletes more at once."""


_stored = partial(Property, data_type=DataType.TEXT, index_searchable=False, index_filterable=False)
_searched = partial(_stored, tokenization=Tokenization.WHITESPACE, index_searchable=True)
_PASSAGE = (
    # Terms, which the analyser has made following the namespace's manifest.
    _searched(name="terms"),
    _searched(name="whole"),  # of the document; the first passage has it
    _stored(
        name="facets", data_type=DataType.TEXT_ARRAY, tokenization=Tokenization.FIELD, index_filterable=True
    ),
    _stored(name="document", data_type=DataType.UUID, index_filterable=True),  # UUID of the document's id
    _stored(name="written", data_type=DataType.INT, index_filterable=True),  # identifies the batch
    *(_stored(name=name) for name in (*HIT_FIELDS, "revision")),
)
# The options of the vector index that the endpoint declares.
_FIXED = ("ef_construction", "max_connections")
_CHANGEABLE = ("ef", "dynamic_ef_min", "dynamic_ef_max", "dynamic_ef_factor", "flat_search_cutoff")
_QUANTISERS = ("rq", "bq", "sq", "pq")


def tenant_of(index: Index) -> str:
    # No namespace has a capital letter, and a tenant's name has no dot and 64 characters at most.
    return f"{index.namespace[:31]}-V{index.name.rpartition('.v')[2]}"


def collection(client: Client, endpoint: WeaviateEndpoint) -> Objects:
    """The passages of every tenant, to create and remove tenants."""
    return client.collections.use(f"{endpoint.collection}Passage")


async def ensure(client: Client, endpoint: WeaviateEndpoint) -> None:
    """Create the collection if it is missing, and update what may change; raises BadIndex if it does not fit."""
    passages = collection(client, endpoint)
    if not await client.collections.exists(passages.name) and await _created(client, endpoint):
        return
    config = await passages.config.get()
    missing = {declared.name for declared in _PASSAGE} - {existing.name for existing in config.properties}
    if missing or config.multi_tenancy_config is None or not config.multi_tenancy_config.enabled:
        raise BadIndex(
            f"Weaviate's collection {passages.name} is not one of Chorale's: declare another `collection`, or delete it"
        )
    (vectors,) = (config.vector_config or {}).values()
    index: Any = vectors.vector_index_config
    enabled = [name for name in _QUANTISERS if index.to_dict().get(name, {}).get("enabled")]
    quantiser = enabled[0] if enabled else "none"
    existing_settings = {"quantiser": quantiser, "replicas": config.replication_config.factor - 1}
    for name in (*_FIXED, *existing_settings):
        has = existing_settings[name] if name in existing_settings else getattr(index, name)
        if has != (declared := getattr(endpoint, name)):
            raise BadIndex(
                f"Weaviate's collection {passages.name} was created with {name} {has}, but {declared} is declared: "
                f"declare {has}, or another `collection` and index again"
            )
    if any(getattr(index, name) != getattr(endpoint, name) for name in _CHANGEABLE):
        settings = Reconfigure.VectorIndex.hnsw(**{name: getattr(endpoint, name) for name in _CHANGEABLE})
        await passages.config.update(vector_config=Reconfigure.Vectors.update(vector_index_config=settings))


async def _created(client: Client, endpoint: WeaviateEndpoint) -> bool:
    """False if another process was faster."""
    try:
        await client.collections.create(**_passages_of(endpoint))
    except UnexpectedStatusCodeError as error:
        if nodes := re.search(r"(\d+) available, \d+ requested", str(error)):
            raise BadIndex(
                f"replicas = {endpoint.replicas} needs {endpoint.replicas + 1} nodes, and Weaviate at {endpoint.url} has "
                f"{nodes[1]}: declare fewer, or add nodes"
            ) from None
        if "already exists" not in str(error):
            raise
        return False
    return True


def _passages_of(endpoint: WeaviateEndpoint) -> dict[str, Any]:
    return {
        "name": f"{endpoint.collection}Passage",
        "properties": list(_PASSAGE),
        "replication_config": Configure.replication(factor=endpoint.replicas + 1),
        "multi_tenancy_config": Configure.multi_tenancy(auto_tenant_activation=True),
        # Weaviate must remove no words: the analyser has removed each language's stop words.
        "inverted_index_config": Configure.inverted_index(stopwords_preset=StopwordsPreset.NONE),
        "vector_config": Configure.Vectors.self_provided(
            vector_index_config=Configure.VectorIndex.hnsw(
                distance_metric=VectorDistances.COSINE,
                quantizer=getattr(Configure.VectorIndex.Quantizer, endpoint.quantiser)(),
                **{name: getattr(endpoint, name) for name in (*_FIXED, *_CHANGEABLE)},
            )
        ),
    }


Object = DataObject[dict[str, Any], None]


def document_uuid(document_id: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, f"document {document_id}")


def has_id(document_ids: Iterable[str]) -> FilterReturn:
    """The object belongs to one of these documents."""
    return Filter.by_property("document").contains_any([*map(document_uuid, document_ids)])


def objects(document: Document, manifest: Manifest, written_us: int) -> list[Object]:
    """The first one records that the document exists in its revision."""
    shared = served_fields(document)
    shared |= {"document": document_uuid(document.document_id), "written": written_us}
    texts = indexed_texts(document, manifest)
    head = {"revision": document.revision, "whole": texts.document}
    made = []
    for number, (passage, terms) in enumerate(zip(document.passages, texts.passages, strict=True)):
        properties = shared | (head if number == 0 else {})
        properties |= {"passage_id": passage.passage_id, "terms": terms}
        vector = None if passage.vector is None else passage.vector.tolist()
        made.append(
            DataObject(properties, uuid=uuid.uuid5(uuid.NAMESPACE_OID, passage.passage_id), vector=vector)
        )
    if not made:
        made.append(DataObject(shared | head, uuid=document_uuid(document.document_id)))
    return made
