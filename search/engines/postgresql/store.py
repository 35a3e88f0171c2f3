"""The PostgreSQL store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from models.documents import Matrix
from models.endpoints import PostgresqlEndpoint
from models.hits import Ranking
from search.checks import checked_questions, without_vectors
from search.documents.reading import FromDocuments, warm_by_searching
from search.engines.postgresql import searching, tables
from search.engines.postgresql.connection import Connection, Session
from search.engines.postgresql.document_writer import DocumentWriter
from search.engines.postgresql.searching import Searched
from search.protocol import Index, Search

_T = TypeVar("_T")


class PostgresqlStore(DocumentWriter, FromDocuments):
    """Implements `search.protocol.Engine`, `Searches`, `Lists` and `ScoresText`; thread-safe.  Connects at first use.

    Raises NotConfigured for an address that is not one of PostgreSQL.
    """

    def __init__(self, url: str, endpoint: PostgresqlEndpoint) -> None:
        super().__init__(Connection(url, endpoint))

    def search_text(self, namespace: str, texts: Sequence[str], search: Search) -> list[Ranking]:
        def work(searched: Searched) -> list[Ranking]:
            return searching.by_text(searched, texts, search)

        return self._search(namespace, work, search.timeout_s, search.generation)

    def search_vectors(self, namespace: str, vectors: Matrix, search: Search) -> list[Ranking]:
        """Exact below `exact_below` passages, approximate (HNSW) from there on.

        Raises NotConfigured if the store is declared without `vectors`.
        """

        def work(searched: Searched) -> list[Ranking]:
            if not searched.tables.dimension:
                raise without_vectors(namespace, "PostgreSQL")
            questions = checked_questions(namespace, vectors, searched.index.manifest, search.embedders)
            return searching.by_vectors(searched, questions, search)

        return self._search(namespace, work, search.timeout_s, search.generation)

    def score_text(
        self,
        namespace: str,
        texts: Sequence[str],
        passage_ids: Sequence[Sequence[str]],
        *,
        timeout_s: float = 1.0,
    ) -> list[dict[str, float]]:
        def work(searched: Searched) -> list[dict[str, float]]:
            return searching.scores(searched, texts, passage_ids)

        return self._search(namespace, work, timeout_s)

    def warm(self, namespace: str | None = None) -> None:
        warm_by_searching(self, self.documents.warmed(namespace), self._connection.endpoint.timeout_s)

    def close(self) -> None:
        """Close the connections; the store cannot be used afterwards."""
        self._connection.close()

    def _search(
        self, namespace: str, use: Callable[[Searched], _T], timeout_s: float, generation: int | None = None
    ) -> _T:
        deadline = self._connection.deadline(timeout_s)

        def work(index: Index) -> _T:
            def ask(session: Session) -> _T:
                found = tables.find(session, index)
                return use(Searched(session, found, index, self._connection.endpoint.candidates))

            return self._connection.read(ask, deadline)

        return self.searching(namespace, deadline, work, generation=generation)
