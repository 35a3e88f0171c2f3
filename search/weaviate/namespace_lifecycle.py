"""Creating, deleting, rebuilding and closing a namespace: its tenant and its record."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace

from weaviate.classes.tenants import Tenant

from models.batching import in_batches
from models.documents import Document, Manifest
from models.errors import PartlyWritten
from search.checks import check_manifest, same_manifest
from search.weaviate import namespace_records as records
from search.weaviate import schema
from search.weaviate.connection import Client
from search.weaviate.document_writer import DocumentWriter
from search.weaviate.namespace_records import Entry

_REBUILD_BATCH = 1_000


class NamespaceLifecycle(DocumentWriter):
    def create(self, namespace: str, manifest: Manifest) -> Manifest:
        """Also raises BadIndex if the collection does not fit the declaration."""
        check_manifest(namespace, manifest)

        async def work(client: Client) -> Manifest:
            await schema.ensure(client, self._endpoint)
            entry = await records.entry(client, self._endpoint, namespace)
            if entry.manifest is not None:
                same_manifest(namespace, entry.manifest, manifest)
            else:
                await self._remove(client, entry.unused)
            tenants = schema.tenants(client, self._endpoint).tenants
            if not await tenants.exists(entry.tenant):
                await tenants.create(Tenant(name=entry.tenant))
            if entry.manifest is None:
                await records.write(client, self._endpoint, replace(entry, manifest=manifest, unused=""))
            return manifest

        return self._connection.run(work, self._endpoint.timeout_s)

    def has(self, namespace: str) -> bool:
        async def work(client: Client) -> bool:
            entry = await records.entry(client, self._endpoint, namespace)
            held = schema.tenants(client, self._endpoint).tenants
            return entry.manifest is not None and await held.exists(entry.tenant)

        return self._connection.run(work, self._endpoint.timeout_s)

    def drop(self, namespace: str) -> bool:
        async def work(client: Client) -> bool:
            entry = await records.entry(client, self._endpoint, namespace)
            await self._remove(client, entry.unused)
            if entry.manifest is None:
                return False
            # With another tenant name, a tenant that is left behind cannot disturb a later namespace of this name.
            gone = Entry(namespace, None, _new_tenant(namespace), unused=entry.tenant)
            await records.write(client, self._endpoint, gone)
            await self._remove(client, entry.tenant)
            return True

        return self._connection.run(work, self._endpoint.timeout_s)

    def rebuild(self, namespace: str, manifest: Manifest, documents: Iterable[Document]) -> None:
        """Rebuild the namespace from these documents while searches go on.

        Searches see the old tenant until the new one is complete.  `manifest` may differ from the old one.  Raises
        PartlyWritten like `upsert`; after any other failure the old tenant stays, and the next rebuild removes the
        new one.
        """
        check_manifest(namespace, manifest)
        tenant = _new_tenant(namespace)

        async def begin(client: Client) -> Entry:
            await schema.ensure(client, self._endpoint)
            entry = await records.entry(client, self._endpoint, namespace)
            await self._remove(client, entry.unused)
            begun = replace(entry, unused=tenant)
            await records.write(client, self._endpoint, begun)
            await schema.tenants(client, self._endpoint).tenants.create(Tenant(name=tenant))
            return begun

        async def finish(client: Client) -> None:
            made = Entry(namespace, manifest, tenant, unused=old.tenant)
            await records.write(client, self._endpoint, made)
            await self._remove(client, old.tenant)

        old = self._connection.run(begin, self._endpoint.timeout_s)
        failures: dict[str, str] = {}
        for batch in in_batches(documents, _REBUILD_BATCH):
            failures |= self._write(tenant, batch, manifest)
        self._connection.run(finish, self._endpoint.timeout_s)
        if failures:
            raise PartlyWritten(namespace, failures)

    def deactivate(self, namespace: str) -> None:
        """Let Weaviate close the namespace's files and free its memory; the next request opens it again."""
        tenant = self._known(namespace).tenant

        async def work(client: Client) -> None:
            await schema.tenants(client, self._endpoint).tenants.deactivate(tenant)

        self._connection.run(work, self._endpoint.timeout_s)

    async def _remove(self, client: Client, tenant: str) -> None:
        """Remove the tenant if it exists."""
        held = schema.tenants(client, self._endpoint).tenants
        if tenant and await held.exists(tenant):
            await held.remove(tenant)


def _new_tenant(namespace: str) -> str:
    # No namespace has a capital letter.
    return f"{namespace[:31]}-V{uuid.uuid4().hex}"[:64]
