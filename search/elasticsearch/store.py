"""The Elasticsearch store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from models.documents import Matrix
from models.elasticsearch_endpoint import ElasticsearchEndpoint
from models.errors import NotConfigured
from models.hits import Ranking
from search.checks import checked_questions
from search.documents.reading import FromDocuments
from search.elasticsearch import lookups, searching
from search.elasticsearch.connection import Connection, IndexCall
from search.elasticsearch.namespace_lifecycle import NamespaceLifecycle
from search.protocol import Entry, Search


class ElasticsearchStore(NamespaceLifecycle, FromDocuments):
    """Implements `search.protocol.Engine`, `Searches`, `Lists` and `ScoresText`; thread-safe.  Sends nothing before it is used."""

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

    def warm(self, namespace: str | None = None) -> None:
        deadline = self._connection.deadline(self._connection.endpoint.timeout_s)
        for name in [state.name for state in self.namespaces()] if namespace is None else [namespace]:
            self.search_text(name, ["warm"], Search(depth=1, timeout_s=max(0.001, deadline.left_s)))

    def entries(self, namespace: str) -> Iterator[Entry]:
        target = self._lookup.look_up(namespace)
        self._refresh(target.index)
        yield from lookups.entries(self._call(target))

    def close(self) -> None:
        """Close the connections; the store cannot be used afterwards."""
        self._connection.close()
