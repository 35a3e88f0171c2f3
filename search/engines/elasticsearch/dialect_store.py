"""The store of a dialect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from models.documents import Matrix
from models.hits import Ranking
from search.checks import checked_questions, without_vectors
from search.documents.reading import FromDocuments, warm_by_searching
from search.engines.elasticsearch import searching
from search.engines.elasticsearch.connection import Connection, IndexCall
from search.engines.elasticsearch.dialect import Dialect
from search.engines.elasticsearch.document_writer import DocumentWriter
from search.engines.elasticsearch.failures import MissingIndex, readable
from search.protocol import Index, Search

_T = TypeVar("_T")


class DialectStore(DocumentWriter, FromDocuments):
    """Implements `search.protocol.Engine`, `Searches`, `Lists` and `ScoresText`; thread-safe.  Sends nothing before it is used."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(Connection(dialect))

    def search_text(self, namespace: str, texts: Sequence[str], search: Search) -> list[Ranking]:
        return self._ask(
            namespace,
            search.timeout_s,
            lambda call: searching.search_text(call, texts, search),
            generation=search.generation,
        )

    def search_vectors(self, namespace: str, vectors: Matrix, search: Search) -> list[Ranking]:
        """Approximate (HNSW).  Raises NotConfigured if the store is declared without `vectors`."""

        def work(call: IndexCall) -> list[Ranking]:
            if not call.layout.has_vectors:
                raise without_vectors(namespace, self._connection.server.product)
            questions = checked_questions(namespace, vectors, call.layout.manifest, search.embedders)
            return searching.search_vectors(call, questions, search)

        return self._ask(namespace, search.timeout_s, work, generation=search.generation)

    def score_text(
        self,
        namespace: str,
        texts: Sequence[str],
        passage_ids: Sequence[Sequence[str]],
        *,
        timeout_s: float = 1.0,
    ) -> list[dict[str, float]]:
        return self._ask(namespace, timeout_s, lambda call: searching.score_text(call, texts, passage_ids))

    def warm(self, namespace: str | None = None) -> None:
        warm_by_searching(self, self.documents.warmed(namespace), self._connection.endpoint.timeout_s)

    def close(self) -> None:
        """Close the connections; the store cannot be used afterwards."""
        self._connection.close()

    def _ask(
        self,
        namespace: str,
        timeout_s: float,
        use: Callable[[IndexCall], _T],
        *,
        generation: int | None = None,
    ) -> _T:
        deadline = self._connection.deadline(timeout_s)

        def work(index: Index) -> _T:
            try:
                with readable(self._connection.server):
                    # The index was made before documents came by which their language can be measured.
                    layout = replace(self._layout(index, deadline), manifest=index.manifest)
                    return use(IndexCall(self._connection, layout, deadline))
            except MissingIndex:
                self._layouts.pop(index.name, None)
                raise

        return self.searching(namespace, deadline, work, generation=generation)
