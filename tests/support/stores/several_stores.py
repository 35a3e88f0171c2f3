"""An embedded store and a failing store that are written together, with documents for them."""

from __future__ import annotations

import numpy as np

from models.documents import Document, Manifest, Passage
from search.documents.database import Database
from search.documents.document_table import DocumentTable
from search.documents.store import DocumentStore
from search.embedded.store import EmbeddedStore

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


def opened(url: str, texts: EmbeddedStore, vectors: EmbeddedStore) -> DocumentStore:
    return DocumentStore(
        {"texts": texts, "vectors": vectors}, DocumentTable(Database(url, writer_wait_s=0.2))
    )


def shown(store: EmbeddedStore) -> dict[str, str]:
    return store.revisions(NS, "tests")
