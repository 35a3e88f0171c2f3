"""The Weaviate store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar
from uuid import UUID

from weaviate.classes.tenants import TenantActivityStatus

from models.documents import Matrix
from models.endpoints import WeaviateEndpoint
from models.hits import Ranking
from search.deadline import Deadline
from search.documents.reading import FromDocuments
from search.engines.weaviate import schema, searching
from search.engines.weaviate.connection import Client, Connection
from search.engines.weaviate.document_writer import DocumentWriter
from search.engines.weaviate.schema import Objects, tenant_of
from search.engines.weaviate.wand_pruning import Pruning
from search.protocol import Entry, Index, Search

_Answer = TypeVar("_Answer")


class WeaviateStore(DocumentWriter, FromDocuments):
    """Implements `search.protocol.Engine`, `Searches`, `Lists` and `Fuses`; thread-safe.  Connects at first use.

    `key` is the API key, if the server wants one.
    """

    def __init__(self, endpoint: WeaviateEndpoint, *, key: str | None = None) -> None:
        super().__init__(Connection(endpoint, key=key))
        self._pruning = Pruning(endpoint, key=key)

    def search_text(self, namespace: str, texts: Sequence[str], search: Search) -> list[Ranking]:
        async def work(index: Index, held: Objects) -> list[Ranking]:
            return await searching.by_text(index, held, search, texts, await self._pruning.least_hits())

        return self._ask(namespace, work, search)

    def search_vectors(self, namespace: str, vectors: Matrix, search: Search) -> list[Ranking]:
        """Approximate (HNSW) from `flat_search_cutoff` passages on, exact below."""
        return self._ask(
            namespace, lambda index, held: searching.by_vector(index, held, search, vectors), search
        )

    def search_hybrid(
        self,
        namespace: str,
        texts: Sequence[str],
        vectors: Matrix,
        search: Search,
        *,
        alpha: float,
        fusion: Literal["relative", "ranked"],
    ) -> list[Ranking]:
        """BM25 and vectors, fused by Weaviate; scores depend on how many passages it looks at."""

        async def work(index: Index, held: Objects) -> list[Ranking]:
            least_hits = await self._pruning.least_hits()
            return await searching.by_both(
                index, held, search, texts, vectors, least_hits, alpha=alpha, fusion=fusion
            )

        return self._ask(namespace, work, search)

    def warm(self, namespace: str | None = None) -> None:
        """Connect, and let the server load the tenants by an empty request to each.

        Deactivated tenants stay closed until a request needs them.
        """
        names = self.documents.warmed(namespace)
        timeout_s = self._endpoint.timeout_s
        indexes = [self.documents.index(name, timeout_s) for name in names]

        async def work(client: Client) -> None:
            held = schema.tenants(client, self._endpoint)
            known = (
                await held.tenants.get_by_names([tenant_of(index) for index in indexes]) if indexes else {}
            )
            for index in indexes:
                tenant = known.get(tenant_of(index))
                # A missing tenant raises its own error when it is asked.
                if tenant is None or tenant.activity_status == TenantActivityStatus.ACTIVE:
                    passages = schema.passages(client, self._endpoint, tenant_of(index))
                    await passages.query.fetch_objects(limit=1, return_properties=[])

        self._connection.run(work, timeout_s)

    def deactivate(self, namespace: str) -> None:
        """Let Weaviate close the namespace's files and free its memory; the next request opens it again."""
        tenant = tenant_of(self.documents.index(namespace, self._endpoint.timeout_s))

        async def work(client: Client) -> None:
            await schema.tenants(client, self._endpoint).tenants.deactivate(tenant)

        self._connection.run(work, self._endpoint.timeout_s)

    def entries(self, index: Index) -> Iterator[Entry]:
        names = ["document_id", "passage_id", "revision"]
        after: UUID | None = None

        async def work(client: Client) -> list[Any]:
            held = schema.passages(client, self._endpoint, tenant_of(index))
            portion = await held.query.fetch_objects(limit=1_000, after=after, return_properties=names)
            return list(portion.objects)

        while portion := self._connection.run(work, self._endpoint.write_timeout_s):
            yield from (Entry(*(stored.properties.get(name) for name in names)) for stored in portion)
            after = portion[-1].uuid

    def close(self) -> None:
        """Close the connection; the store connects again when it is used."""
        self._connection.close()

    def _ask(
        self, namespace: str, work: Callable[[Index, Objects], Awaitable[_Answer]], search: Search
    ) -> _Answer:
        deadline = Deadline(search.timeout_s, f"Weaviate at {self._endpoint.url}")

        def run(index: Index) -> _Answer:
            async def ask(client: Client) -> _Answer:
                return await work(index, schema.passages(client, self._endpoint, tenant_of(index)))

            return self._connection.run(ask, deadline.check())

        return self.searching(namespace, deadline, run, generation=search.generation)
