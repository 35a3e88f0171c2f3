"""An engine without the documents' database: the test says which index each namespace has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from search.documents.reading import DocumentReader, Documents
from search.protocol import Index
from tests.contracts.store_documents import MANIFEST


def index_of(namespace: str = "ns", **manifest: Any) -> Index:
    return Index(namespace, 1, f"{namespace}.v1", replace(MANIFEST, **manifest))


class KnownIndexes(DocumentReader):
    """Each namespace has the index of `index_of`, or another that was set in `indexes`."""

    def __init__(self) -> None:
        super().__init__(Documents("sqlite://"), "engine")
        self.indexes: dict[str, Index] = {}

    def index(self, namespace: str, timeout_s: float, generation: int | None = None) -> Index:
        return self.indexes.get(namespace, index_of(namespace))


def with_known_indexes(engine: Any) -> Any:
    engine.reader = KnownIndexes()
    return engine


def revisions(engine: Any, index: Index | None = None) -> dict[str, str]:
    """The revision of each document that the index has."""
    entries = engine.entries(index or index_of())
    return {entry.document_id: entry.revision for entry in entries if entry.revision is not None}
