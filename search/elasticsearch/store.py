"""The Elasticsearch store: implements `search.protocol.Store`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from models.documents import Document, Manifest, Matrix, NamespaceState, PassageText, Vector
from models.elasticsearch_endpoint import ElasticsearchEndpoint
from models.errors import NotConfigured
from models.hits import Ranking
from search.checks import check_questions
from search.elasticsearch import lookups, searching
from search.elasticsearch.connection import Connection
from search.elasticsearch.deadline import Deadline
from search.elasticsearch.document_writer import Writer
from search.elasticsearch.filter_conditions import conditions
from search.elasticsearch.index_layout import Namespace
from search.elasticsearch.index_lookup import Namespaces
from search.elasticsearch.listing import list_documents
from search.elasticsearch.namespace_records import Control
from search.protocol import Filters


class ElasticsearchStore:
    """Thread-safe.  Nothing is sent before it is used.

    Its generations are its own, raised after a batch can be seen, so what was read with one is never older than it.
    """

    def __init__(
        self, endpoint: ElasticsearchEndpoint, *, api_key: str | None = None, password: str | None = None
    ) -> None:
        self._connection = Connection(endpoint, api_key=api_key, password=password)
        self._namespaces = Namespaces(self._connection)
        self._control = Control(self._connection)
        self._writer = Writer(self._connection, self._namespaces, self._control)

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
        deadline = self._connection.deadline(timeout_s)
        asked = conditions(filters, tuple(exclude_ids))

        def search(target: Namespace) -> list[Ranking]:
            return searching.search_text(
                self._connection, target, texts, depth=depth, asked=asked, deadline=deadline
            )

        return self._namespaces.using(namespace, deadline, search)

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
        """Approximate (HNSW).  Raises NotConfigured where the store is declared without `vectors`."""
        deadline = self._connection.deadline(timeout_s)
        asked = conditions(filters, tuple(exclude_ids))
        questions = np.ascontiguousarray(vectors, np.float32)

        def search(target: Namespace) -> list[Ranking]:
            if not target.has_vectors:
                raise NotConfigured(
                    f"namespace {namespace!r} in Elasticsearch has no vectors: declare the store with "
                    "`vectors = true` and build it again with `chorale index --rebuild`"
                )
            check_questions(namespace, questions, target.manifest.dimension)
            return searching.search_vectors(
                self._connection, target, questions, depth=depth, asked=asked, deadline=deadline
            )

        return self._namespaces.using(namespace, deadline, search)

    def list_documents(
        self,
        namespace: str,
        *,
        order_by: str,
        descending: bool,
        depth: int,
        filters: Filters | None = None,
        exclude_ids: Sequence[str] = (),
        timeout_s: float = 2.0,
    ) -> Ranking:
        deadline = self._connection.deadline(timeout_s)
        asked = conditions(filters, tuple(exclude_ids))

        def work(target: Namespace) -> Ranking:
            return list_documents(
                self._connection,
                target,
                order_by=order_by,
                descending=descending,
                depth=depth,
                asked=asked,
                deadline=deadline,
            )

        return self._namespaces.using(namespace, deadline, work)

    def vectors(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 10.0
    ) -> dict[str, Vector]:
        deadline = self._connection.deadline(timeout_s)
        return self._namespaces.using(
            namespace,
            deadline,
            lambda target: lookups.vectors(self._connection, target, passage_ids, deadline),
        )

    def texts(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 0.5
    ) -> dict[str, PassageText]:
        deadline = self._connection.deadline(timeout_s)
        return self._namespaces.using(
            namespace, deadline, lambda target: lookups.texts(self._connection, target, passage_ids, deadline)
        )

    def generation(self, namespace: str, *, timeout_s: float = 10.0) -> int:
        return self._control.generation(namespace, self._connection.deadline(timeout_s))

    def warm(self, namespace: str | None = None) -> None:
        deadline = self._lookup()
        names = [state.name for state in self._namespaces.all(deadline)] if namespace is None else [namespace]
        for name in names:
            self.search_text(name, ["warm"], depth=1, timeout_s=max(0.001, deadline.left_s))

    def create(self, namespace: str, manifest: Manifest) -> Manifest:
        """Raises ManifestMismatch, and WrongDeclaration for a name or manifest that cannot be."""
        return self._writer.create(namespace, manifest)

    def upsert(self, namespace: str, documents: Sequence[Document]) -> int:
        return self._writer.upsert(namespace, documents)

    def delete(self, namespace: str, document_ids: Iterable[str]) -> int:
        return self._writer.delete(namespace, document_ids)

    def drop(self, namespace: str) -> bool:
        return self._writer.drop(namespace)

    def rebuild(self, namespace: str, manifest: Manifest, documents: Iterable[Document]) -> int:
        """Build the namespace anew of these documents, beside running searches; returns the new generation."""
        return self._writer.rebuild(namespace, manifest, documents)

    def raise_generation(self, namespace: str, least: int) -> None:
        """Let the next generation be above `least`, which an index that was lost had reached."""
        self._control.change(
            namespace, lambda record: replace(record, generation=max(record.generation, least))
        )

    def namespaces(self) -> list[NamespaceState]:
        deadline = self._lookup()
        found = self._namespaces.all(deadline)
        generations = self._control.generations([namespace.name for namespace in found])
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
        deadline = self._lookup()
        return self._namespaces.using(
            namespace, deadline, lambda target: lookups.revisions(self._connection, target, source, deadline)
        )

    def _lookup(self) -> Deadline:
        """For what a request does not limit."""
        return self._connection.deadline(self._connection.endpoint.timeout_s)

    def close(self) -> None:
        """Close the connections; the store cannot be used after it."""
        self._connection.close()
