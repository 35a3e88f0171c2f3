"""What engines with a server share: connections with time limits, and searches.  An engine adds how it searches one index."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from models.declarations.engines import ElasticsearchEndpoint, PostgresqlEndpoint
from models.documents import Manifest, Matrix
from models.errors import BadIndex, StoreUnavailable
from models.hits import Ranking
from models.retries import pauses, retried
from search.checks import checked_questions, without_vectors
from search.deadline import Deadline, TimedThreads
from search.documents.reading import FromDocuments
from search.protocol import Index, Search

_T = TypeVar("_T")


class MissingIndex(BadIndex):
    """The index does not exist (any more)."""


class Transient(StoreUnavailable):
    """May be over in a moment: worth a retry."""


@dataclass(frozen=True, slots=True)
class IndexCall:
    """A call on one index; an engine adds what it needs to search it."""

    manifest: Manifest
    has_vectors: bool


_Call = TypeVar("_Call", bound=IndexCall)
_AnyCall = TypeVar("_AnyCall", bound=IndexCall, contravariant=True)


class Searching(Protocol[_AnyCall]):
    """How an engine searches one of its indexes."""

    def by_text(self, call: _AnyCall, texts: Sequence[str], search: Search, /) -> list[Ranking]: ...

    def by_vectors(self, call: _AnyCall, questions: Matrix, search: Search, /) -> list[Ranking]: ...

    def scores(
        self, call: _AnyCall, texts: Sequence[str], passage_ids: Sequence[Sequence[str]], /
    ) -> list[dict[str, float]]:
        """For each text the scores of its passages that have one of its words."""
        ...


class ServerConnection:
    """The connections to one server, with a thread for each, because its client cannot end a call in time."""

    server: object
    """The name of the server in failures."""

    def __init__(self, endpoint: ElasticsearchEndpoint | PostgresqlEndpoint, name: str) -> None:
        self.endpoint = endpoint
        self._threads = TimedThreads(endpoint.connections, name)

    def deadline(self, timeout_s: float | None = None) -> Deadline:
        """`timeout_s` defaults to the limit for an operation outside of requests."""
        return Deadline(self.endpoint.timeout_s if timeout_s is None else timeout_s, str(self.server))

    def attempted(
        self,
        attempt: Callable[[], _T],
        deadline: Deadline,
        *pauses_s: float,
        give_up: Callable[[], None] = lambda: None,
    ) -> _T:
        """The result of `attempt`, which is called once more after each pause while it raises Transient.  Raises StoreTimeout at the
        deadline; `give_up` is called if an attempt has begun by then."""
        return retried(
            lambda: self._threads.run(attempt, deadline, give_up=give_up),
            Transient,
            pause_s=pauses(*pauses_s),
            for_s=deadline.remaining_s,
        )

    def close(self) -> None:
        self._threads.close()


class ServerStore(FromDocuments, ABC, Generic[_Call]):
    """Implements `search.protocol.Searches`, `Lists` and `ScoresText`."""

    product: str
    searching: Searching[_Call]
    _connection: ServerConnection

    @abstractmethod
    def use(self, index: Index, work: Callable[[_Call], _T], deadline: Deadline) -> _T:
        """The result of `work` for the index; raises MissingIndex."""

    def has(self, index: Index) -> bool:
        with suppress(MissingIndex):
            return self.use(index, lambda _: True, self._connection.deadline())
        return False

    def search_text(self, namespace: str, texts: Sequence[str], search: Search) -> list[Ranking]:
        def work(call: _Call) -> list[Ranking]:
            return self.searching.by_text(call, texts, search)

        return self._search(namespace, work, search.timeout_s, search.generation)

    def search_vectors(self, namespace: str, vectors: Matrix, search: Search) -> list[Ranking]:
        """Raises NotConfigured if the store is declared without `vectors`."""

        def work(call: _Call) -> list[Ranking]:
            if not call.has_vectors:
                raise without_vectors(namespace, self.product)
            questions = checked_questions(namespace, vectors, call.manifest, search.embedders)
            return self.searching.by_vectors(call, questions, search)

        return self._search(namespace, work, search.timeout_s, search.generation)

    def score_text(
        self,
        namespace: str,
        texts: Sequence[str],
        passage_ids: Sequence[Sequence[str]],
        *,
        timeout_s: float = 1.0,
    ) -> list[dict[str, float]]:
        def work(call: _Call) -> list[dict[str, float]]:
            return self.searching.scores(call, texts, passage_ids)

        return self._search(namespace, work, timeout_s)

    def warm(self, namespace: str | None = None) -> None:
        """Search each namespace once, all together in the time of one operation."""
        deadline = self._connection.deadline()
        for name in self.documents.warmed(namespace):
            self.search_text(name, ["warm"], Search(depth=1, timeout_s=max(0.001, deadline.remaining_s)))

    def close(self) -> None:
        """Close the connections; the store cannot be used afterwards."""
        self._connection.close()

    def _search(
        self, namespace: str, work: Callable[[_Call], _T], timeout_s: float, generation: int | None = None
    ) -> _T:
        deadline = self._connection.deadline(timeout_s)
        return self.on_index(
            namespace, deadline, lambda index: self.use(index, work, deadline), generation=generation
        )
