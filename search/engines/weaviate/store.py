"""The Weaviate store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal
from uuid import UUID

from weaviate.classes.tenants import TenantActivityStatus

from models.declarations.engines import WeaviateEndpoint
from models.documents import Matrix
from models.hits import Ranking
from search.deadline import Deadline
from search.documents.reading import FromDocuments
from search.engines.weaviate import schema, searching
from search.engines.weaviate.connection import Client, Connection
from search.engines.weaviate.document_writer import DocumentWriter
from search.engines.weaviate.schema import Objects, tenant_of
from search.engines.weaviate.wand_pruning import Pruning
from search.protocol import Entry, Index, Search


class WeaviateStore(DocumentWriter, FromDocuments):
    """Implements `search.protocol.Engine`, `Searches`, `Lists` and `Fuses`; thread-safe.  Connects at first use.

    `key` is the API key, if the server wants one.
    """

    def __init__(self, endpoint: WeaviateEndpoint, *, key: str | None = None) -> None:
        super().__init__(Connection(endpoint, key=key))
        self._pruning = Pruning(endpoint, key=key)

    def search_text(self, namespace: str, texts: Sequence[str], search: Search) -> list[Ranking]:
        by_text = partial(searching.by_text, search=search, texts=texts, pruning=self._pruning)
        return self._search(namespace, by_text, search)

    def search_vectors(self, namespace: str, vectors: Matrix, search: Search) -> list[Ranking]:
        """Approximate (HNSW) from `flat_search_cutoff` passages on, exact below."""
        return self._search(namespace, partial(searching.by_vector, search=search, vectors=vectors), search)

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

        by_both = partial(
            searching.by_both,
            search=search,
            texts=texts,
            vectors=vectors,
            pruning=self._pruning,
            alpha=alpha,
            fusion=fusion,
        )
        return self._search(namespace, by_both, search)

    def warm(self, namespace: str | None = None) -> None:
        """Connect, and let the server load the tenants by an empty request to each.

        Deactivated tenants stay closed until a request needs them.
        """
        names = self.documents.warmed(namespace)
        timeout_s = self._endpoint.timeout_s
        indexes = [self.documents.index(name, timeout_s) for name in names]

        async def work(client: Client) -> None:
            collection = schema.collection(client, self._endpoint)
            known = (
                await collection.tenants.get_by_names([tenant_of(index) for index in indexes])
                if indexes
                else {}
            )
            for index in indexes:
                tenant = known.get(tenant_of(index))
                # A missing tenant raises its own error when it is asked.
                if tenant is None or tenant.activity_status == TenantActivityStatus.ACTIVE:
                    passages = collection.with_tenant(tenant_of(index))
                    await passages.query.fetch_objects(limit=1, return_properties=[])

        self._connection.run(work, timeout_s)

    def deactivate(self, namespace: str) -> None:
        """Let Weaviate close the namespace's files and free its memory; the next request opens it again."""
        tenant = tenant_of(self.documents.index(namespace, self._endpoint.timeout_s))

        self._connection.run(
            lambda client: schema.collection(client, self._endpoint).tenants.deactivate(tenant),
            self._endpoint.timeout_s,
        )

    def entries(self, index: Index) -> Iterator[Entry]:
        names = ["document_id", "passage_id", "revision"]
        after: UUID | None = None

        async def work(passages: Objects) -> list[Any]:
            portion = await passages.query.fetch_objects(limit=1_000, after=after, return_properties=names)
            return list(portion.objects)

        while portion := self.on_passages(index, work, self._endpoint.write_timeout_s):
            yield from (Entry(*(stored.properties.get(name) for name in names)) for stored in portion)
            after = portion[-1].uuid

    def close(self) -> None:
        """Close the connection; the store connects again when it is used."""
        self._connection.close()

    def _search(
        self, namespace: str, work: Callable[[Index, Objects], Awaitable[list[Ranking]]], search: Search
    ) -> list[Ranking]:
        deadline = Deadline(search.timeout_s, f"Weaviate at {self._endpoint.url}")

        def run(index: Index) -> list[Ranking]:
            return self.on_passages(index, partial(work, index), deadline.check())

        return self.on_index(namespace, deadline, run, generation=search.generation)
