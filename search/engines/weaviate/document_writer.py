"""A tenant of Weaviate and the documents in it: first everything of a batch is written, then what it replaces is deleted."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from weaviate.classes.query import Filter
from weaviate.classes.tenants import Tenant
from weaviate.collections.classes.filters import FilterReturn
from weaviate.exceptions import WeaviateInsertManyAllFailedError, WeaviateQueryError

from models.batching import in_batches
from models.documents import Document, Manifest
from models.errors import PartlyWritten, StageFailure, StoreUnavailable
from search.engines.weaviate import schema
from search.engines.weaviate.connection import Client, Connection, failure_of
from search.engines.weaviate.schema import Object, document_uuid, objects
from search.protocol import Index

MESSAGE_BYTES = 4_000_000
"""Passages are sent in messages of about this size; Weaviate's default limit is 100 MB."""

_MESSAGE_OBJECTS = 500
_DOCUMENTS_AT_ONCE = 1_000
_TOO_LARGE = "larger than the server's message limit: raise its GRPC_MAX_MESSAGE_SIZE, or leave out what nobody searches"


class DocumentWriter:
    """Implements the writing part of `search.protocol.Engine`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._endpoint = connection.endpoint

    def create(self, index: Index) -> None:
        """Also raises BadIndex if the collection does not fit the declaration."""

        async def work(client: Client) -> None:
            await schema.ensure(client, self._endpoint)
            tenants, name = schema.tenants(client, self._endpoint).tenants, schema.tenant_of(index)
            if not await tenants.exists(name):
                await tenants.create(Tenant(name=name))

        self._connection.run(work, self._endpoint.timeout_s)

    def has(self, index: Index) -> bool:
        async def work(client: Client) -> bool:
            held = schema.tenants(client, self._endpoint)
            return await client.collections.exists(held.name) and await held.tenants.exists(
                schema.tenant_of(index)
            )

        return self._connection.run(work, self._endpoint.timeout_s)

    def drop(self, index: Index) -> None:
        if not self.has(index):
            return

        async def work(client: Client) -> None:
            await schema.tenants(client, self._endpoint).tenants.remove(schema.tenant_of(index))

        self._connection.run(work, self._endpoint.timeout_s)

    def write(self, index: Index, documents: Sequence[Document], deleted: Sequence[str]) -> None:
        """Raises PartlyWritten naming each document that Weaviate refused or no message can hold."""
        tenant = schema.tenant_of(index)
        failures = self._upsert(tenant, documents, index.manifest)
        for part in in_batches(sorted(set(deleted)), _DOCUMENTS_AT_ONCE):
            self._delete(tenant, _of_documents(part))
        if failures:
            raise PartlyWritten(index.namespace, failures)

    def _upsert(self, tenant: str, documents: Sequence[Document], manifest: Manifest) -> dict[str, str]:
        """Returns the reasons for refused documents, by id."""
        failures: dict[str, str] = {}
        # It never repeats after an interrupted batch; numbers are sent as doubles.
        written_us = time.time_ns() // 1_000
        older = Filter.by_property("written").not_equal(written_us)
        for part in in_batches(documents, _DOCUMENTS_AT_ONCE):
            made = [one for document in part for one in objects(document, manifest, written_us=written_us)]
            self._send(tenant, made, failures)
            done = [document.document_id for document in part if document.document_id not in failures]
            if done:
                self._delete(tenant, Filter.all_of([_of_documents(done), older]))
        return failures

    def _send(self, tenant: str, made: Sequence[Object], failures: dict[str, str]) -> None:
        """Write objects message by message; `failures` receives the reasons for refused documents."""
        for message in _messages(made):
            refused = self._connection.run(
                partial(self._insert, tenant, message), self._endpoint.write_timeout_s
            )
            for place, why in refused.items():
                properties = message[place].properties
                name = properties.get("passage_id", properties["document_id"])
                failures.setdefault(properties["document_id"], f"Weaviate refused {name!r}: {why}")

    async def _insert(self, tenant: str, message: Sequence[Object], client: Client) -> dict[int, str]:
        held = schema.passages(client, self._endpoint, tenant)
        try:
            done = await held.data.insert_many(message)
        except WeaviateInsertManyAllFailedError as error:
            if "tenant" in str(error):
                raise
            return dict.fromkeys(range(len(message)), _short(error))
        except WeaviateQueryError as error:
            failure = failure_of(error, self._endpoint.url)
            if type(failure) is not StageFailure:
                raise failure from error
            why = _TOO_LARGE if "larger than max" in str(error) else _short(error)
            return dict.fromkeys(range(len(message)), why)
        return {place: _short(refused.message) for place, refused in done.errors.items()}

    def _delete(self, tenant: str, where: FilterReturn) -> None:
        async def work(client: Client) -> int:
            held = schema.passages(client, self._endpoint, tenant)
            done = await held.data.delete_many(where=where)
            if done.failed or (done.matches and not done.successful):
                raise StoreUnavailable(
                    f"Weaviate at {self._endpoint.url} deleted {done.successful:,} of {done.matches:,} passages"
                )
            return done.matches

        while self._connection.run(work, self._endpoint.write_timeout_s) >= schema.MOST_RESULTS:
            pass


def _of_documents(document_ids: Iterable[str]) -> FilterReturn:
    return Filter.by_property("document").contains_any([document_uuid(name) for name in document_ids])


def _messages(made: Sequence[Object]) -> Iterator[list[Object]]:
    message: list[Object] = []
    size = 0
    for one in made:
        own = sum(len(value) for value in one.properties.values() if isinstance(value, str))
        own += sum(map(len, one.properties["facets"]))
        if message and (size + own > MESSAGE_BYTES or len(message) == _MESSAGE_OBJECTS):
            yield message
            message, size = [], 0
        message.append(one)
        size += own
    if message:
        yield message


def _short(message: object) -> str:
    return " ".join(str(message).split())[:200]
