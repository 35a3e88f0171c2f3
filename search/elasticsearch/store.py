"""The Elasticsearch store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from models.documents import Matrix, NamespaceState, PassageText, Vector
from models.elasticsearch_endpoint import ElasticsearchEndpoint
from models.errors import NotConfigured
from models.hits import Ranking
from search.checks import checked_questions
from search.deadline import Deadline
from search.elasticsearch import lookups, searching
from search.elasticsearch.connection import Connection, IndexCall
from search.elasticsearch.listing import list_documents
from search.elasticsearch.namespace_lifecycle import NamespaceLifecycle
from search.protocol import Search


class ElasticsearchStore(NamespaceLifecycle):
    """Implements `search.protocol.Store`, writing by inheritance; thread-safe.  Sends nothing before it is used.

    The generation rises after a batch is visible, so data read after reading a generation is never older than it.
    """

    def __init__(
        self, endpoint: ElasticsearchEndpoint, *, api_key: str | None = None, password: str | None = None
    ) -> None:
        super().__init__(Connection(endpoint, api_key=api_key, password=password))

    def search_text(self, namespace: str, texts: Sequence[str], search: Search) -> list[Ranking]:
        return self._lookup.using(
            namespace, search.timeout_s, lambda call: searching.search_text(call, texts, search)
        )

    def search_vectors(self, namespace: str, vectors: Matrix, search: Search) -> list[Ranking]:
        """Approximate (HNSW).  Raises NotConfigured if the store is declared without `vectors`."""

        def work(call: IndexCall) -> list[Ranking]:
            if not call.namespace.has_vectors:
                raise NotConfigured(
                    f"namespace {namespace!r} in Elasticsearch has no vectors: declare the store with "
                    "`vectors = true` and build it again with `chorale index --rebuild`"
                )
            questions = checked_questions(namespace, vectors, call.namespace.manifest.dimension)
            return searching.search_vectors(call, questions, search)

        return self._lookup.using(namespace, search.timeout_s, work)

    def score_text(
        self,
        namespace: str,
        texts: Sequence[str],
        passage_ids: Sequence[Sequence[str]],
        *,
        timeout_s: float = 1.0,
    ) -> list[dict[str, float]]:
        return self._lookup.using(
            namespace, timeout_s, lambda call: searching.score_text(call, texts, passage_ids)
        )

    def list_documents(self, namespace: str, search: Search, *, order_by: str, descending: bool) -> Ranking:
        def work(call: IndexCall) -> Ranking:
            return list_documents(call, search, order_by=order_by, descending=descending)

        return self._lookup.using(namespace, search.timeout_s, work)

    def vectors(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 10.0
    ) -> dict[str, Vector]:
        return self._lookup.using(namespace, timeout_s, lambda call: lookups.vectors(call, passage_ids))

    def texts(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 0.5
    ) -> dict[str, PassageText]:
        return self._lookup.using(namespace, timeout_s, lambda call: lookups.texts(call, passage_ids))

    def generation(self, namespace: str, *, timeout_s: float = 10.0) -> int:
        return self._records.generation(namespace, self._connection.deadline(timeout_s))

    def warm(self, namespace: str | None = None) -> None:
        deadline = self._deadline()
        names = [state.name for state in self._lookup.all(deadline)] if namespace is None else [namespace]
        for name in names:
            self.search_text(name, ["warm"], Search(depth=1, timeout_s=max(0.001, deadline.left_s)))

    def raise_generation(self, namespace: str, least: int) -> None:
        self._records.change(
            namespace, lambda record: replace(record, generation=max(record.generation, least))
        )

    def namespaces(self) -> list[NamespaceState]:
        deadline = self._deadline()
        found = self._lookup.all(deadline)
        generations = self._records.generations([namespace.name for namespace in found])
        counts = lookups.counts(self._connection, deadline)
        return [
            NamespaceState(
                namespace.name,
                *counts.get(namespace.index, (0, 0)),
                generations.get(namespace.name, 0),
                namespace.manifest,
            )
            for namespace in found
        ]

    def revisions(self, namespace: str, source: str | None = None) -> dict[str, str]:
        timeout_s = self._connection.endpoint.timeout_s
        return self._lookup.using(namespace, timeout_s, lambda call: lookups.revisions(call, source))

    def _deadline(self) -> Deadline:
        """The deadline of calls that have no time limit of their own."""
        return self._connection.deadline(self._connection.endpoint.timeout_s)

    def close(self) -> None:
        """Close the connections; the store cannot be used afterwards."""
        self._connection.close()
