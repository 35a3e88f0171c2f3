"""The Weaviate store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeVar

from models.documents import Matrix, NamespaceState, PassageText, Vector
from models.errors import NotConfigured
from models.hits import Ranking
from models.weaviate_endpoint import WeaviateEndpoint
from search.protocol import Search
from search.weaviate import listing, lookups, searching
from search.weaviate import namespace_records as records
from search.weaviate.connection import Client, Connection
from search.weaviate.namespace_lifecycle import NamespaceLifecycle
from search.weaviate.namespace_records import Entry, Namespace
from search.weaviate.schema import Objects
from search.weaviate.wand_pruning import Pruning

_Answer = TypeVar("_Answer")


class WeaviateStore(NamespaceLifecycle):
    """Implements `search.protocol.Store` and `Fuses`, writing by inheritance; thread-safe.  Connects at first use.

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

    def list_documents(self, namespace: str, search: Search, *, order_by: str, descending: bool) -> Ranking:
        """Raises NotConfigured if the option `texts` is off: then there is no metadata either."""
        if not self._endpoint.texts:
            raise NotConfigured(
                f"Weaviate at {self._endpoint.url} holds no metadata to list by: declare `texts = true`, or the branch "
                "with another store"
            )
        return self._ask(
            namespace,
            lambda _, held: listing.list_documents(held, search, order_by=order_by, descending=descending),
            search.timeout_s,
        )

    def vectors(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 10.0
    ) -> dict[str, Vector]:
        return self._ask(namespace, lambda _, held: lookups.vectors(held, passage_ids), timeout_s)

    def texts(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 0.5
    ) -> dict[str, PassageText]:
        """Raises NotConfigured if the option `texts` is off."""
        if not self._endpoint.texts:
            raise NotConfigured(f"Weaviate at {self._endpoint.url} holds no texts: declare `texts = true`")
        return self._ask(namespace, lambda _, held: lookups.texts(held, passage_ids), timeout_s)

    def generation(self, namespace: str, *, timeout_s: float = 10.0) -> int:
        return self._known(namespace, timeout_s).generation

    def warm(self, namespace: str | None = None) -> None:
        """Connect, and let the server load the tenants by an empty request to each.

        Deactivated tenants stay closed until a request needs them.
        """

        async def touch(_: Namespace, held: Objects) -> None:
            await held.query.fetch_objects(limit=1, return_properties=[])

        async def work(client: Client) -> None:
            wanted: Sequence[Entry | Namespace]
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

    def namespaces(self) -> list[NamespaceState]:
        """Counts are 0 for a deactivated namespace, which counting would open, and for one whose tenant is missing."""

        async def state(client: Client, entry: Entry, *, is_open: bool) -> NamespaceState:
            if is_open:
                return await records.using(client, self._endpoint, entry.name, lookups.state)
            return NamespaceState(entry.name, 0, 0, entry.generation, entry.manifest)

        async def work(client: Client) -> list[NamespaceState]:
            entries = await records.listed(client, self._endpoint)
            are_open = await records.are_open(client, self._endpoint, entries)
            states = (state(client, one, is_open=are_open.get(one.name, False)) for one in entries)
            return list(await asyncio.gather(*states))

        return self._connection.run(work, self._endpoint.timeout_s)

    def revisions(self, namespace: str, source: str | None = None) -> dict[str, str]:
        return self._ask(
            namespace, lambda _, held: lookups.revisions(held, source), self._endpoint.write_timeout_s
        )

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
