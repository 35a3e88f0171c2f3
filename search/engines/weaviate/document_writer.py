"""A tenant of Weaviate and the documents in it: first everything of a batch is written, then what it replaces is deleted."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from weaviate.classes.query import Filter
from weaviate.classes.tenants import Tenant
from weaviate.collections.classes.filters import FilterReturn
from weaviate.exceptions import WeaviateInsertManyAllFailedError, WeaviateQueryError

from models.batching import in_batches, in_messages
from models.documents import Document
from models.errors import PartlyWritten, StageFailure, StoreUnavailable
from search.engines.weaviate import schema
from search.engines.weaviate.connection import Client, Connection, failure_of
from search.engines.weaviate.schema import Object, Objects, has_id, objects
from search.protocol import Index

_Answer = TypeVar("_Answer")

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
            tenants, name = schema.collection(client, self._endpoint).tenants, schema.tenant_of(index)
            if not await tenants.exists(name):
                await tenants.create(Tenant(name=name))

        self._connection.run(work, self._endpoint.timeout_s)

    def has(self, index: Index) -> bool:
        async def work(client: Client) -> bool:
            passages = schema.collection(client, self._endpoint)
            is_there = await client.collections.exists(passages.name)
            return is_there and await passages.tenants.exists(schema.tenant_of(index))

        return self._connection.run(work, self._endpoint.timeout_s)

    def drop(self, index: Index) -> None:
        async def work(client: Client) -> None:
            await schema.collection(client, self._endpoint).tenants.remove(schema.tenant_of(index))

        if self.has(index):
            self._connection.run(work, self._endpoint.timeout_s)

    def write(self, index: Index, documents: Sequence[Document], deleted: Sequence[str]) -> None:
        """Raises PartlyWritten naming each document that Weaviate refused or no message can hold."""
        failures = self._upsert(index, documents)
        for part in in_batches(sorted(set(deleted)), _DOCUMENTS_AT_ONCE):
            self._delete(index, has_id(part))
        if failures:
            raise PartlyWritten(index.namespace, failures)

    def _upsert(self, index: Index, documents: Sequence[Document]) -> dict[str, str]:
        """Returns the reasons for refused documents, by id."""
        failures: dict[str, str] = {}
        # It never repeats after an interrupted batch; numbers are sent as doubles.
        written_us = time.time_ns() // 1_000
        older = Filter.by_property("written").not_equal(written_us)
        for part in in_batches(documents, _DOCUMENTS_AT_ONCE):
            made = [one for document in part for one in objects(document, index.manifest, written_us)]
            self._send(index, made, failures)
            done = [document.document_id for document in part if document.document_id not in failures]
            if done:
                self._delete(index, Filter.all_of([has_id(done), older]))
        return failures

    def _send(self, index: Index, made: Sequence[Object], failures: dict[str, str]) -> None:
        """Write objects message by message; `failures` receives the reasons for refused documents."""
        for message in in_messages(made, _characters, most=_MESSAGE_OBJECTS, most_bytes=MESSAGE_BYTES):
            refused = self.on_passages(index, partial(self._insert, message), self._endpoint.write_timeout_s)
            for place, why in refused.items():
                properties = message[place].properties
                name = properties.get("passage_id", properties["document_id"])
                failures.setdefault(properties["document_id"], f"Weaviate refused {name!r}: {why}")

    async def _insert(self, message: Sequence[Object], passages: Objects) -> dict[int, str]:
        """The reasons for refused objects, by their places."""
        try:
            done = await passages.data.insert_many(message)
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

    def _delete(self, index: Index, where: FilterReturn) -> None:
        done, limit_s = None, self._endpoint.write_timeout_s
        while done is None or done.matches >= schema.MOST_RESULTS:
            done = self.on_passages(index, lambda passages: passages.data.delete_many(where=where), limit_s)
            if done.failed or (done.matches and not done.successful):
                raise StoreUnavailable(
                    f"Weaviate at {self._endpoint.url} deleted {done.successful:,} of {done.matches:,} passages"
                )

    def on_passages(
        self, index: Index, work: Callable[[Objects], Awaitable[_Answer]], timeout_s: float
    ) -> _Answer:
        """The result of `work` on the passages of one index; raises StageFailure."""

        async def on_client(client: Client) -> _Answer:
            return await work(schema.collection(client, self._endpoint).with_tenant(schema.tenant_of(index)))

        return self._connection.run(on_client, timeout_s)


def _characters(one: Object) -> int:
    texts = (value for value in one.properties.values() if isinstance(value, str))
    return sum(map(len, (*texts, *one.properties["facets"])))


def _short(message: object) -> str:
    return " ".join(str(message).split())[:200]
