"""One record for each namespace: manifest and tenant.

A rebuild makes another tenant, so that a search sees the whole old build or the whole new one.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from weaviate.classes.tenants import TenantActivityStatus
from weaviate.exceptions import WeaviateBaseError, WeaviateQueryError

from models.documents import Manifest
from models.errors import UnknownNamespace
from models.weaviate_endpoint import WeaviateEndpoint
from search.weaviate.connection import Client
from search.weaviate.schema import MOST_RESULTS, Objects, namespaces, passages, tenants

NO_COLLECTION = "could not find class"
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    manifest: Manifest | None
    """The manifest; None if the namespace was dropped or never completed."""
    tenant: str
    unused: str = ""
    """A tenant that nobody searches: being built, or left behind."""

    @classmethod
    def of(cls, held: dict[str, Any]) -> Entry:
        read = json.loads(held["manifest"] or "{}")
        tenant, unused = read.pop("tenant", held["name"]), read.pop("unused", "")
        manifest = Manifest.from_stored(read) if read else None
        return cls(held["name"], manifest, tenant, unused)


@dataclass(frozen=True, slots=True)
class Namespace:
    name: str
    manifest: Manifest
    tenant: str


async def using(
    client: Client,
    endpoint: WeaviateEndpoint,
    name: str,
    work: Callable[[Namespace, Objects], Awaitable[_Answer]],
) -> _Answer:
    """The result of `work` for a namespace and its passages; repeated if a rebuild removed them at the same time.

    Raises UnknownNamespace.
    """
    namespace = await known(client, endpoint, name)
    while True:
        try:
            return await work(namespace, passages(client, endpoint, namespace.tenant))
        except WeaviateBaseError:
            searched, namespace = namespace, await known(client, endpoint, name)
            if namespace.tenant == searched.tenant:
                raise


async def find(client: Client, endpoint: WeaviateEndpoint, name: str) -> Entry | None:
    """The record; None if there is none, or if the collection does not exist yet."""
    try:
        held = await namespaces(client, endpoint).query.fetch_object_by_id(_id(name))
    except WeaviateQueryError as error:
        if NO_COLLECTION not in str(error):
            raise
        return None
    return None if held is None else Entry.of(held.properties)


async def entry(client: Client, endpoint: WeaviateEndpoint, name: str) -> Entry:
    """The record; a new one if the namespace never existed."""
    return await find(client, endpoint, name) or Entry(name, None, tenant=name)


async def known(client: Client, endpoint: WeaviateEndpoint, name: str) -> Namespace:
    """Raises UnknownNamespace."""
    found = await find(client, endpoint, name)
    if found is not None and found.manifest is not None:
        return Namespace(name, found.manifest, found.tenant)
    raise UnknownNamespace(name, f"Weaviate at {endpoint.url}")


async def listed(client: Client, endpoint: WeaviateEndpoint) -> list[Entry]:
    """The existing namespaces, by name; MOST_RESULTS of them at most."""
    try:
        found = await namespaces(client, endpoint).query.fetch_objects(limit=MOST_RESULTS)
    except WeaviateQueryError as error:
        if NO_COLLECTION not in str(error):
            raise
        return []
    entries = [Entry.of(one.properties) for one in found.objects]
    return sorted((one for one in entries if one.manifest), key=lambda one: one.name)


async def are_open(
    client: Client, endpoint: WeaviateEndpoint, asked: Sequence[Entry | Namespace]
) -> dict[str, bool]:
    """By name, for each namespace whose tenant exists.  Any other request would open a closed tenant."""
    if not asked:
        return {}
    found = await tenants(client, endpoint).tenants.get_by_names([one.tenant for one in asked])
    return {
        one.name: found[one.tenant].activity_status == TenantActivityStatus.ACTIVE
        for one in asked
        if one.tenant in found
    }


async def write(client: Client, endpoint: WeaviateEndpoint, entry: Entry) -> None:
    told = {"tenant": entry.tenant, "unused": entry.unused}
    manifest = json.dumps(told | (asdict(entry.manifest) if entry.manifest else {}))
    properties = {"name": entry.name, "manifest": manifest}
    held = namespaces(client, endpoint)
    if await held.data.exists(_id(entry.name)):
        await held.data.replace(_id(entry.name), properties)
    else:
        await held.data.insert(properties, uuid=_id(entry.name))


def _id(name: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, f"namespace {name}")
