"""The store of a server with its documents' database, which together keep the promises of a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from models.documents import Document, Manifest
from search.documents.database import Database
from search.documents.document_table import NEXT, DocumentTable
from search.documents.reading import DocumentReader
from search.documents.store import ClusteredStore
from search.elasticsearch.store import ElasticsearchStore
from search.protocol import Engine
from search.weaviate.store import WeaviateStore

ServerStore = ElasticsearchStore | WeaviateStore


class OneEngine(ClusteredStore):
    """Writes the engine together with the database, and searches the engine."""

    def __init__(self, engine: ServerStore, table: DocumentTable) -> None:
        super().__init__({"engine": engine}, table)
        engine.documents = DocumentReader(table, "engine")
        self.namespaces = engine.namespaces  # type: ignore[method-assign]
        self.generation = engine.generation  # type: ignore[method-assign]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stores["engine"], name)

    def rebuild(self, namespace: str, manifest: Manifest, documents: Iterable[Document]) -> int:
        with self.exclusive(namespace):
            self.table.drop(namespace, NEXT)
        begun = self.rebuilding(namespace, manifest)
        for document in documents:
            begun.upsert(namespace, [document])
        return begun.finish()


@contextmanager
def with_documents(engine: ServerStore, url: str | None = None) -> Iterator[OneEngine]:
    """`url`: the documents' database; a new file if None."""
    with TemporaryDirectory() as folder:
        table = DocumentTable(Database(url or f"sqlite:///{folder}/documents.db"))
        yield OneEngine(engine, table)
        table.close()


def held(engine: Engine, namespace: str = "ns") -> dict[str, str]:
    """The revision of each document that the engine holds."""
    return {one.document_id: one.revision for one in engine.entries(namespace) if one.revision is not None}
