"""The Weaviate store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeVar

from models.documents import Matrix
from models.hits import Ranking
from models.weaviate_endpoint import WeaviateEndpoint
from search.documents.reading import FromDocuments
from search.protocol import Entry, Search
from search.weaviate import namespace_records as records
from search.weaviate import searching
from search.weaviate.connection import Client, Connection
from search.weaviate.namespace_lifecycle import NamespaceLifecycle
from search.weaviate.namespace_records import Namespace
from search.weaviate.schema import Objects
from search.weaviate.wand_pruning import Pruning

_Answer = TypeVar("_Answer")


class WeaviateStore(NamespaceLifecycle, FromDocuments):
    """Implements `search.protocol.Engine`, `Searches`, `Lists` and `Fuses`; thread-safe.  Connects at first use.

    `key` is the API key, if the server wants one.
    """

    def __init__(self, endpoint: WeaviateEndpoint, *, key: str | None = None) -> None:
        super().__init__(Connection(endpoint, key=key))
        self._pruning = Pruning(endpoint, key=key)

    def search_text(self, namespace: str, texts: Sequence[str], search: Search) -> list[Ranking]:
        async def work(found: Namespace, held: Objects) -> list[Ranking]:
            return await searching.by_text(found, held, search, texts, await self._pruning.least_hits())

        return self._ask(namespace, work, search.timeout_s)

    def search_vectors(self, namespace: str, vectors: Matrix, search: Search) -> list[Ranking]:
        """Approximate (HNSW) from `flat_search_cutoff` passages on, exact below."""
        return self._ask(
            namespace, lambda found, held: searching.by_vector(found, held, search, vectors), search.timeout_s
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

        async def work(found: Namespace, held: Objects) -> list[Ranking]:
            least_hits = await self._pruning.least_hits()
            return await searching.by_both(
                found, held, search, texts, vectors, least_hits, alpha=alpha, fusion=fusion
            )

        return self._ask(namespace, work, search.timeout_s)

    def warm(self, namespace: str | None = None) -> None:
        """Connect, and let the server load the tenants by an empty request to each.

        Deactivated tenants stay closed until a request needs them.
        """

        async def touch(_: Namespace, held: Objects) -> None:
            await held.query.fetch_objects(limit=1, return_properties=[])

        async def work(client: Client) -> None:
            wanted: Sequence[records.Entry | Namespace]
            if namespace is None:
                wanted = await records.listed(client, self._endpoint)
            else:
                wanted = [await records.known(client, self._endpoint, namespace)]
            are_open = await records.are_open(client, self._endpoint, wanted)
            for one in wanted:
                # A missing tenant raises its own error when it is asked.
                if are_open.get(one.name, True):
                    await records.using(client, self._endpoint, one.name, touch)

        self._connection.run(work, self._endpoint.timeout_s)

    def entries(self, namespace: str) -> list[Entry]:
        names = ["document_id", "passage_id", "revision"]

        async def work(_: Namespace, held: Objects) -> list[Entry]:
            found = held.iterator(return_properties=names)
            return [Entry(*(one.properties.get(name) for name in names)) async for one in found]

        return self._ask(namespace, work, self._endpoint.write_timeout_s)

    def _ask(
        self,
        namespace: str,
        work: Callable[[Namespace, Objects], Awaitable[_Answer]],
        timeout_s: float,
    ) -> _Answer:
        return self._connection.run(
            lambda client: records.using(client, self._endpoint, namespace, work), timeout_s
        )

    def close(self) -> None:
        """Close the connection; the store connects again when it is used."""
        self._connection.close()
