"""The Elasticsearch store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from models.documents import Document, Manifest, Matrix, NamespaceState, PassageText, Vector
from models.elasticsearch_endpoint import ElasticsearchEndpoint
from models.errors import NotConfigured
from models.hits import Ranking
from search.checks import check_questions
from search.deadline import Deadline
from search.elasticsearch import lookups, searching
from search.elasticsearch.connection import Connection
from search.elasticsearch.document_writer import DocumentWriter
from search.elasticsearch.filter_conditions import conditions
from search.elasticsearch.index_layout import Namespace
from search.elasticsearch.index_lookup import IndexLookup
from search.elasticsearch.listing import list_documents
from search.elasticsearch.namespace_lifecycle import NamespaceLifecycle
from search.elasticsearch.namespace_records import NamespaceRecords
from search.protocol import Search


class ElasticsearchStore:
    """Implements `search.protocol.Store`; thread-safe.  Sends nothing before it is used.

    The generation rises after a batch is visible, so data read after reading a generation is never older than it.
    """

    def __init__(
        self, endpoint: ElasticsearchEndpoint, *, api_key: str | None = None, password: str | None = None
    ) -> None:
        self._connection = Connection(endpoint, api_key=api_key, password=password)
        self._lookup = IndexLookup(self._connection)
        self._records = NamespaceRecords(self._connection)
        self._documents = DocumentWriter(self._connection, self._lookup, self._records)
        self._lifecycle = NamespaceLifecycle(self._connection, self._lookup, self._records, self._documents)

    def search_text(self, namespace: str, texts: Sequence[str], search: Search) -> list[Ranking]:
        deadline = self._connection.deadline(search.timeout_s)
        asked = conditions(search)

        def work(target: Namespace) -> list[Ranking]:
            return searching.search_text(
                self._connection, target, texts, depth=search.depth, asked=asked, deadline=deadline
            )

        return self._lookup.using(namespace, deadline, work)

    def search_vectors(self, namespace: str, vectors: Matrix, search: Search) -> list[Ranking]:
        """Approximate (HNSW).  Raises NotConfigured if the store is declared without `vectors`."""
        deadline = self._connection.deadline(search.timeout_s)
        asked = conditions(search)
        questions = np.ascontiguousarray(vectors, np.float32)

        def work(target: Namespace) -> list[Ranking]:
            if not target.has_vectors:
                raise NotConfigured(
                    f"namespace {namespace!r} in Elasticsearch has no vectors: declare the store with "
                    "`vectors = true` and build it again with `chorale index --rebuild`"
                )
            check_questions(namespace, questions, target.manifest.dimension)
            return searching.search_vectors(
                self._connection, target, questions, depth=search.depth, asked=asked, deadline=deadline
            )

        return self._lookup.using(namespace, deadline, work)

    def list_documents(self, namespace: str, search: Search, *, order_by: str, descending: bool) -> Ranking:
        deadline = self._connection.deadline(search.timeout_s)
        asked = conditions(search)

        def work(target: Namespace) -> Ranking:
            return list_documents(
                self._connection,
                target,
                order_by=order_by,
                descending=descending,
                depth=search.depth,
                asked=asked,
                deadline=deadline,
            )

        return self._lookup.using(namespace, deadline, work)

    def vectors(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 10.0
    ) -> dict[str, Vector]:
        deadline = self._connection.deadline(timeout_s)
        return self._lookup.using(
            namespace,
            deadline,
            lambda target: lookups.vectors(self._connection, target, passage_ids, deadline),
        )

    def texts(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 0.5
    ) -> dict[str, PassageText]:
        deadline = self._connection.deadline(timeout_s)
        return self._lookup.using(
            namespace, deadline, lambda target: lookups.texts(self._connection, target, passage_ids, deadline)
        )

    def generation(self, namespace: str, *, timeout_s: float = 10.0) -> int:
        return self._records.generation(namespace, self._connection.deadline(timeout_s))

    def warm(self, namespace: str | None = None) -> None:
        deadline = self._deadline()
        names = [state.name for state in self._lookup.all(deadline)] if namespace is None else [namespace]
        for name in names:
            self.search_text(name, ["warm"], Search(depth=1, timeout_s=max(0.001, deadline.left_s)))

    def create(self, namespace: str, manifest: Manifest) -> Manifest:
        return self._lifecycle.create(namespace, manifest)

    def upsert(self, namespace: str, documents: Sequence[Document]) -> int:
        return self._documents.upsert(namespace, documents)

    def delete(self, namespace: str, document_ids: Iterable[str]) -> int:
        return self._documents.delete(namespace, document_ids)

    def drop(self, namespace: str) -> bool:
        return self._lifecycle.drop(namespace)

    def rebuild(self, namespace: str, manifest: Manifest, documents: Iterable[Document]) -> int:
        return self._lifecycle.rebuild(namespace, manifest, documents)

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
        deadline = self._deadline()
        return self._lookup.using(
            namespace, deadline, lambda target: lookups.revisions(self._connection, target, source, deadline)
        )

    def _deadline(self) -> Deadline:
        """For calls without a time limit of their own."""
        return self._connection.deadline(self._connection.endpoint.timeout_s)

    def close(self) -> None:
        """Close the connections; the store cannot be used afterwards."""
        self._connection.close()
