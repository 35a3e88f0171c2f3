"""The store that a Weaviate is: everything that `search.protocol.Store` promises, and `search_hybrid`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from models.documents import Document, Manifest, Matrix, NamespaceState, PassageText, Vector
from models.errors import NotConfigured
from models.hits import Ranking
from models.weaviate_endpoint import WeaviateEndpoint
from search.protocol import Filters
from search.weaviate import lookups, reader, registry, schema
from search.weaviate.connection import Client, Connection
from search.weaviate.reader import Fusion, Search
from search.weaviate.writer import Writer


class WeaviateStore:
    """Implements `search.protocol.Store`; thread-safe.  Nothing is connected before it is used.

    `key` is the API key, where the server wants one.
    """

    def __init__(self, endpoint: WeaviateEndpoint, *, key: str | None = None) -> None:
        self._endpoint = endpoint
        self._connection = Connection(endpoint, key=key)
        self._writer = Writer(self._connection)

    def search_text(
        self,
        namespace: str,
        texts: Sequence[str],
        *,
        depth: int,
        filters: Filters | None = None,
        exclude_ids: Sequence[str] = (),
        timeout_s: float = 2.0,
    ) -> list[Ranking]:
        search = Search(namespace, depth, filters, exclude_ids)
        return self._connection.run(
            lambda client: reader.by_text(client, self._endpoint, search, texts), timeout_s
        )

    def search_vectors(
        self,
        namespace: str,
        vectors: Matrix,
        *,
        depth: int,
        filters: Filters | None = None,
        exclude_ids: Sequence[str] = (),
        timeout_s: float = 2.0,
    ) -> list[Ranking]:
        """Approximate (HNSW) from `flat_search_cutoff` passages on, exact below."""
        search = Search(namespace, depth, filters, exclude_ids)
        return self._connection.run(
            lambda client: reader.by_vector(client, self._endpoint, search, vectors), timeout_s
        )

    def search_hybrid(
        self,
        namespace: str,
        texts: Sequence[str],
        vectors: Matrix,
        *,
        alpha: float,
        fusion: Literal["relative", "ranked"],
        depth: int,
        filters: Filters | None = None,
        exclude_ids: Sequence[str] = (),
        timeout_s: float = 2.0,
    ) -> list[Ranking]:
        """BM25 and vectors, fused by Weaviate itself; scores depend on how many passages it looks at."""
        how = Fusion(alpha, fusion)
        search = Search(namespace, depth, filters, exclude_ids)
        return self._connection.run(
            lambda client: reader.by_both(client, self._endpoint, search, how, texts, vectors), timeout_s
        )

    def vectors(self, namespace: str, passage_ids: Sequence[str]) -> dict[str, Vector]:
        return self._connection.run(
            lambda client: lookups.vectors(client, self._endpoint, namespace, passage_ids),
            self._endpoint.timeout_s,
        )

    def texts(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 0.5
    ) -> dict[str, PassageText]:
        """Raises NotConfigured where the option `texts` is off."""
        if not self._endpoint.texts:
            raise NotConfigured(f"Weaviate at {self._endpoint.url} holds no texts: declare `texts = true`")
        return self._connection.run(
            lambda client: lookups.texts(client, self._endpoint, namespace, passage_ids), timeout_s
        )

    def generation(self, namespace: str) -> int:
        found = self._connection.run(
            lambda client: registry.known(client, self._endpoint, namespace), self._endpoint.timeout_s
        )
        return found.generation

    def warm(self, namespace: str | None = None) -> None:
        """Connect, and open the tenants' files by asking each of them for nothing."""

        async def work(client: Client) -> None:
            names = [entry.name for entry in await registry.listed(client, self._endpoint)]
            for name in names if namespace is None else [namespace]:
                await registry.known(client, self._endpoint, name)
                held = schema.passages(client, self._endpoint, name)
                await held.query.fetch_objects(limit=1, return_properties=[])

        self._connection.run(work, self._endpoint.timeout_s)

    def create(self, namespace: str, manifest: Manifest) -> Manifest:
        """Raises ManifestMismatch, BadIndex where the collection does not fit the declaration, and
        WrongDeclaration for a name or manifest that cannot be."""
        return self._writer.create(namespace, manifest)

    def upsert(self, namespace: str, documents: Sequence[Document]) -> int:
        return self._writer.upsert(namespace, documents)

    def delete(self, namespace: str, document_ids: Iterable[str]) -> int:
        return self._writer.delete(namespace, document_ids)

    def drop(self, namespace: str) -> bool:
        return self._writer.drop(namespace)

    def deactivate(self, namespace: str) -> None:
        return self._writer.deactivate(namespace)

    def raise_generation(self, namespace: str, least: int) -> None:
        self._writer.raise_generation(namespace, least)

    def namespaces(self) -> list[NamespaceState]:
        return self._connection.run(
            lambda client: lookups.states(client, self._endpoint), self._endpoint.timeout_s
        )

    def revisions(self, namespace: str, source: str) -> dict[str, str]:
        return self._connection.run(
            lambda client: lookups.revisions(client, self._endpoint, namespace, source),
            self._endpoint.write_timeout_s,
        )

    def close(self) -> None:
        """Let go of the connection; the store connects again when it is used."""
        self._connection.close()
