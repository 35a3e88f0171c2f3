"""Writing: every document's passages first, then its head, which says in which revision it is there.

A writer that is killed leaves documents whose head is the old one: the next run sees another revision and hands
them in again.  The generation rises at the end, when a search sees the whole batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from weaviate.classes.query import Filter
from weaviate.classes.tenants import Tenant
from weaviate.collections.classes.filters import FilterReturn
from weaviate.exceptions import WeaviateInsertManyAllFailedError, WeaviateQueryError

from models.documents import Document, Manifest
from models.errors import BadIndex, PartlyWritten, StageFailure
from search.checks import check_documents, check_manifest, same_manifest
from search.embedded.analysis import analyser
from search.weaviate import registry, schema
from search.weaviate.connection import Client, Connection
from search.weaviate.failures import failure_of
from search.weaviate.objects import Object, Objects, document_uuid, objects
from search.weaviate.registry import Entry, Namespace

MESSAGE_BYTES = 4_000_000
"""Passages are sent in messages of about this size; Weaviate takes 100 MB unless told otherwise."""

_MESSAGE_OBJECTS = 500
_DOCUMENTS_AT_ONCE = 1_000
_TOO_LARGE = (
    "larger than a message may be: raise GRPC_MAX_MESSAGE_SIZE there, or leave out what nobody searches"
)
_DELETED_AT_ONCE = 10_000
"""Weaviate's QUERY_MAXIMUM_RESULTS."""


class Writer:
    """One writer a namespace: the generation is read, and written at the end."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._endpoint = connection.endpoint

    def create(self, namespace: str, manifest: Manifest) -> Manifest:
        check_manifest(namespace, manifest)
        analyser(manifest.language)

        async def work(client: Client) -> Manifest:
            await schema.ensure(client, self._endpoint)
            entry = await registry.find(client, self._endpoint, namespace)
            if entry is not None and entry.manifest is not None:
                same_manifest(namespace, entry.manifest, manifest)
            tenants = schema.tenants(client, self._endpoint).tenants
            if not await tenants.exists(namespace):
                await tenants.create(Tenant(name=namespace))
            if entry is None or entry.manifest is None:
                generation = entry.generation if entry else 0
                await registry.write(client, self._endpoint, Entry(namespace, generation, manifest))
            return manifest

        return self._connection.run(work, self._endpoint.timeout_s)

    def upsert(self, namespace: str, documents: Sequence[Document]) -> int:
        """Raises PartlyWritten naming each document that Weaviate, or its message, did not take."""
        found = self._known(namespace)
        # Of a document given twice, the last.
        chosen = list({document.document_id: document for document in documents}.values())
        check_documents(chosen, found.manifest)
        if not chosen:
            return found.generation
        generation, failures = found.generation + 1, dict[str, str]()
        for part in _in_parts(chosen, _DOCUMENTS_AT_ONCE):
            made = list(self._made(part, found.manifest, generation, failures))
            self._send(namespace, [one for document in made for one in document.others], failures)
            # Leftovers go before the head says that the new revision is there, and the old head after it.
            done = [document for document in made if document.document_id not in failures]
            no_head = Filter.not_(Filter.by_property("is_head").equal(True))
            self._delete_older(namespace, done, generation, no_head)
            self._send(namespace, [document.head for document in done], failures)
            done = [document for document in done if document.document_id not in failures]
            self._delete_older(namespace, done, generation)
        self._raise(namespace, found.manifest, generation)
        if failures:
            raise PartlyWritten(namespace, failures, generation)
        return generation

    def delete(self, namespace: str, document_ids: Iterable[str]) -> int:
        found = self._known(namespace)
        deleted = 0
        for part in _in_parts(sorted(set(document_ids)), _DOCUMENTS_AT_ONCE):
            mine = _of_documents(part)
            deleted += self._count(namespace, mine & Filter.by_property("is_head").equal(True))
            self._delete(namespace, mine)
        if deleted:
            self._raise(namespace, found.manifest, found.generation + 1)
        return deleted

    def drop(self, namespace: str) -> bool:
        async def work(client: Client) -> bool:
            try:
                found = await registry.known(client, self._endpoint, namespace)
            except BadIndex:
                return False
            await registry.write(client, self._endpoint, Entry(namespace, found.generation + 1, None))
            await schema.tenants(client, self._endpoint).tenants.remove(namespace)
            return True

        return self._connection.run(work, self._endpoint.timeout_s)

    def deactivate(self, namespace: str) -> None:
        """Let Weaviate close the namespace's files and free its memory; the next request opens it again."""
        self._known(namespace)

        async def work(client: Client) -> None:
            await schema.tenants(client, self._endpoint).tenants.deactivate(namespace)

        self._connection.run(work, self._endpoint.timeout_s)

    def raise_generation(self, namespace: str, least: int) -> None:
        found = self._known(namespace)
        self._raise(namespace, found.manifest, max(least, found.generation))

    def _known(self, namespace: str) -> Namespace:
        return self._connection.run(
            lambda client: registry.known(client, self._endpoint, namespace), self._endpoint.timeout_s
        )

    def _raise(self, namespace: str, manifest: Manifest, generation: int) -> None:
        entry = Entry(namespace, generation, manifest)
        self._connection.run(
            lambda client: registry.write(client, self._endpoint, entry), self._endpoint.timeout_s
        )

    def _made(
        self, documents: Sequence[Document], manifest: Manifest, generation: int, failures: dict[str, str]
    ) -> Iterator[Objects]:
        for document in documents:
            try:
                yield objects(document, manifest, generation=generation, texts=self._endpoint.texts)
            except (TypeError, ValueError) as error:
                failures[document.document_id] = f"its metadata or text cannot be written: {error}"

    def _send(self, namespace: str, made: Sequence[Object], failures: dict[str, str]) -> None:
        """Write objects, message by message; what is refused is named by its document."""
        for message in _messages(made):
            refused = self._connection.run(
                partial(self._insert, namespace, message), self._endpoint.write_timeout_s
            )
            for place, why in refused.items():
                properties = message[place].properties
                name = properties.get("passage_id", properties["document_id"])
                failures.setdefault(properties["document_id"], f"Weaviate refused {name!r}: {why}")

    async def _insert(self, namespace: str, message: Sequence[Object], client: Client) -> dict[int, str]:
        held = schema.passages(client, self._endpoint, namespace)
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
        return {place: _short(found.message) for place, found in done.errors.items()}

    def _delete_older(
        self, namespace: str, done: Sequence[Objects], generation: int, *also: FilterReturn
    ) -> None:
        """What earlier batches wrote of these documents."""
        if done:
            mine = _of_documents(document.document_id for document in done)
            older = Filter.by_property("written").not_equal(generation)
            self._delete(namespace, Filter.all_of([mine, older, *also]))

    def _delete(self, namespace: str, where: FilterReturn) -> None:
        async def work(client: Client) -> int:
            held = schema.passages(client, self._endpoint, namespace)
            return (await held.data.delete_many(where=where)).matches

        while self._connection.run(work, self._endpoint.write_timeout_s) >= _DELETED_AT_ONCE:
            pass

    def _count(self, namespace: str, where: FilterReturn) -> int:
        async def work(client: Client) -> int:
            held = schema.passages(client, self._endpoint, namespace)
            return (await held.aggregate.over_all(filters=where, total_count=True)).total_count or 0

        return self._connection.run(work, self._endpoint.timeout_s)


def _of_documents(document_ids: Iterable[str]) -> FilterReturn:
    return Filter.by_property("document").contains_any([document_uuid(name) for name in document_ids])


def _messages(made: Sequence[Object]) -> Iterator[list[Object]]:
    message: list[Object] = []
    size = 0
    for one in made:
        own = sum(len(value) for value in one.properties.values() if isinstance(value, str))
        if message and (size + own > MESSAGE_BYTES or len(message) == _MESSAGE_OBJECTS):
            yield message
            message, size = [], 0
        message.append(one)
        size += own
    if message:
        yield message


_Part = TypeVar("_Part")


def _in_parts(items: Sequence[_Part], size: int) -> Iterator[Sequence[_Part]]:
    for first in range(0, len(items), size):
        yield items[first : first + size]


def _short(said: object) -> str:
    return " ".join(str(said).split())[:200]
