"""An embedded store and a failing store that are written together, with documents for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from models.documents import Document, Manifest, Passage
from search.documents.reading import DocumentReader, Documents
from search.documents.store import DocumentStore
from search.engines.embedded.store import EmbeddedStore

DIMENSION = 4
MANIFEST = Manifest(splitter="s", language="en", analyser="a", embedder="e", dimension=DIMENSION)
NS = "law"


def a_document(name: str, text: str = "rent", *, revision: str = "1", passages: int = 1) -> Document:
    vector = np.eye(DIMENSION, dtype=np.float32)[len(text) % DIMENSION]
    return Document(
        document_id=name,
        source="tests",
        title=f"Of {name}",
        passages=tuple(
            Passage(f"{name}#{place}", place, f"{text} {place}", "Part", 3, 7, vector)
            for place in range(passages)
        ),
        metadata={"year": 2020, "parts": ["a", None]},
        content_hash=f"hash {len(text)}",
        near_duplicate_group="first",
        revision=revision,
    )


def with_readers(address: str | Path, *, writer_wait_s: float = 0.2, **stores: Any) -> DocumentStore:
    """The stores written as one, each of which reads the documents."""
    documents = Documents(address, writer_wait_s=writer_wait_s)
    for name, store in stores.items():
        store.reader = DocumentReader(documents, name)
    return DocumentStore(stores, documents.table)


def opened(url: str, *, writer_wait_s: float = 0.2, **stores: EmbeddedStore) -> DocumentStore:
    return with_readers(url, writer_wait_s=writer_wait_s, **stores)


def indexed_revisions(store: EmbeddedStore) -> dict[str, str]:
    """The revision of each document that the store's index has."""
    entries = store.entries(store.documents.index(NS, 30))
    return {entry.document_id: entry.revision for entry in entries if entry.revision is not None}
