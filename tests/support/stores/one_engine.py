"""One store with its documents' database, which together keep the promises of a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pytest

from models.documents import Document, Manifest, Matrix, PassageText
from models.hits import Ranking
from search.documents.document_table import NEXT
from search.documents.reading import DocumentReader, Documents
from search.documents.store import DocumentStore, Rebuilding
from search.engines.embedded.store import EmbeddedStore
from search.protocol import Search


class OneEngine(DocumentStore):
    """Writes the engine together with the database, and searches the engine."""

    def __init__(self, engine: Any, documents: Documents, name: str = "local") -> None:
        super().__init__({name: engine}, documents.table)
        self.engine, self.documents = engine, documents
        self.another: Callable[[], AbstractContextManager[Any]] | None = None
        """Opens the same index through another connection."""
        engine.reader = DocumentReader(documents, name)
        self.namespaces = engine.namespaces  # type: ignore[method-assign]
        self.generation = engine.generation  # type: ignore[method-assign]

    def search_text(self, namespace: str, texts: Sequence[str], search: Search) -> list[Ranking]:
        rankings: list[Ranking] = self.engine.search_text(namespace, texts, search)
        return rankings

    def search_vectors(self, namespace: str, vectors: Matrix, search: Search) -> list[Ranking]:
        rankings: list[Ranking] = self.engine.search_vectors(namespace, vectors, search)
        return rankings

    def list_documents(
        self, namespace: str, search: Search, *, order_by: str, descending: bool = False
    ) -> Ranking:
        listed: Ranking = self.engine.list_documents(
            namespace, search, order_by=order_by, descending=descending
        )
        return listed

    def texts(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 30.0
    ) -> dict[str, PassageText]:
        """The half second that an engine has by default is little for a server on a busy machine."""
        read: dict[str, PassageText] = self.engine.texts(namespace, passage_ids, timeout_s=timeout_s)
        return read

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["engine"], name)

    def rebuild(self, namespace: str, manifest: Manifest, documents: Iterable[Document]) -> int:
        with self.exclusive(namespace):
            self.table.drop(namespace, NEXT)
        begun = Rebuilding(self, namespace, manifest)
        for document in documents:
            begun.upsert(namespace, [document])
        return begun.finish()

    def close(self) -> None:
        super().close()
        self.documents.close()


def embedded_store(folder: Path, *, writer_wait_s: float = 5.0, **options: bool) -> OneEngine:
    """The embedded store of a folder, as in an installation that has no other store."""
    documents = Documents(folder / "corpus.db", writer_wait_s=writer_wait_s)
    return OneEngine(EmbeddedStore(folder, **options), documents)


@contextmanager
def with_documents(
    engine: Any,
    url: str | None = None,
    *,
    another: Callable[[], AbstractContextManager[Any]] | None = None,
) -> Iterator[OneEngine]:
    """`url`: the documents' database; a new file if None.  `another` opens the engine once more."""
    with TemporaryDirectory() as folder:
        store = OneEngine(engine, Documents(url or Path(folder) / "documents.db"))
        store.another = another
        yield store
        store.documents.close()


class Emptied:
    """Inherit in the tests of a contract, and provide `shared_store`, one store for all of them."""

    options: ClassVar[Mapping[str, Any]] = {}
    """The options of the store's kind."""

    @pytest.fixture
    def store(self, shared_store: OneEngine) -> Iterator[OneEngine]:
        yield shared_store
        for state in shared_store.namespaces():
            shared_store.drop(state.name)


def indexed_revisions(store: DocumentStore, namespace: str = "ns", name: str | None = None) -> dict[str, str]:
    """The revision of each document that the index of a store has; of the only store if there is no name."""
    build = store.known(namespace)
    [row] = [row for row in store.table.indexes(build).values() if name in (None, row.store)]
    entries = store.stores[row.store].entries(row.index)
    return {entry.document_id: entry.revision for entry in entries if entry.revision is not None}
