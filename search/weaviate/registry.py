"""What namespaces are: manifest and generation of each, one object; a dropped one keeps its generation alone."""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass, fields
from typing import Any

from weaviate.exceptions import WeaviateQueryError

from models.documents import Manifest
from models.errors import BadIndex
from models.weaviate_endpoint import WeaviateEndpoint
from search.weaviate.connection import Client
from search.weaviate.schema import namespaces

NO_COLLECTION = "could not find class"
_MOST = 10_000
"""Weaviate's QUERY_MAXIMUM_RESULTS: so many namespaces can be listed."""

_MANIFEST_FIELDS = frozenset(field.name for field in fields(Manifest))


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    generation: int
    manifest: Manifest | None
    """None of a namespace that was dropped."""

    @classmethod
    def of(cls, held: dict[str, Any]) -> Entry:
        text = held["manifest"]
        read = json.loads(text) if text else None
        manifest = Manifest(**{k: v for k, v in read.items() if k in _MANIFEST_FIELDS}) if read else None
        return cls(held["name"], held["generation"], manifest)


@dataclass(frozen=True, slots=True)
class Namespace:
    """One that there is."""

    name: str
    generation: int
    manifest: Manifest


async def find(client: Client, endpoint: WeaviateEndpoint, name: str) -> Entry | None:
    """None too where nothing was ever made."""
    try:
        held = await namespaces(client, endpoint).query.fetch_object_by_id(_id(name))
    except WeaviateQueryError as error:
        if NO_COLLECTION not in str(error):
            raise
        return None
    return None if held is None else Entry.of(held.properties)


async def known(client: Client, endpoint: WeaviateEndpoint, name: str) -> Namespace:
    """Raises BadIndex naming those there are."""
    entry = await find(client, endpoint, name)
    if entry is not None and entry.manifest is not None:
        return Namespace(name, entry.generation, entry.manifest)
    there = ", ".join(entry.name for entry in await listed(client, endpoint)) or "none yet"
    raise BadIndex(f"Weaviate at {endpoint.url} has no namespace {name!r}; there are: {there}")


async def listed(client: Client, endpoint: WeaviateEndpoint) -> list[Entry]:
    """Those that were not dropped, by name."""
    try:
        found = await namespaces(client, endpoint).query.fetch_objects(limit=_MOST)
    except WeaviateQueryError as error:
        if NO_COLLECTION not in str(error):
            raise
        return []
    entries = [Entry.of(one.properties) for one in found.objects]
    return sorted((one for one in entries if one.manifest), key=lambda one: one.name)


async def write(client: Client, endpoint: WeaviateEndpoint, entry: Entry) -> None:
    manifest = json.dumps(asdict(entry.manifest)) if entry.manifest else ""
    properties = {"name": entry.name, "manifest": manifest, "generation": entry.generation}
    held = namespaces(client, endpoint)
    if await held.data.exists(_id(entry.name)):
        await held.data.replace(_id(entry.name), properties)
    else:
        await held.data.insert(properties, uuid=_id(entry.name))


def _id(name: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, f"namespace {name}")
