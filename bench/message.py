"""What one document that is handed in costs in a namespace that is large: `python -m bench.message`.

The table of documents is in a new database on the PostgreSQL of CHORALE_TEST_POSTGRESQL_URL, the stores are kept in
memory, and the embedder is none: what is left is what grows with the namespace.  The database is deleted at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import numpy as np
from sqlalchemy import create_engine, make_url

from ingest.items import RawDocument
from models.documents import Document, Manifest, Matrix
from search.several_stores.database import Database
from search.several_stores.store import ClusteredStore
from search.several_stores.document_table import DocumentTable
from search.protocol import Store
from tasks.indexing.batches import index_documents

NAMESPACE, SOURCE = "bench", "task"
DIMENSION, WORDS = 8, 60
MANIFEST = Manifest("bench", "en", "bench", "bench", DIMENSION)
_BATCH = 2_000


class Nowhere:
    """A store that takes everything and shows nothing."""

    def __init__(self) -> None:
        self._generation = 0

    def create(self, namespace: str, manifest: Manifest) -> Manifest:
        return manifest

    def upsert(self, namespace: str, documents: Sequence[Document]) -> int:
        self._generation += 1
        return self._generation

    def delete(self, namespace: str, document_ids: Iterable[str]) -> int:
        return 0

    def drop(self, namespace: str) -> bool:
        return True

    def revisions(self, namespace: str, source: str | None = None) -> dict[str, str]:
        return {}

    def generation(self, namespace: str, *, timeout_s: float = 10.0) -> int:
        return self._generation

    def raise_generation(self, namespace: str, least: int) -> None:
        self._generation = max(self._generation, least)

    def close(self) -> None: ...


class NoModel:
    fingerprint, dimension, max_pieces = "bench", DIMENSION, 256

    def count_pieces(self, text: str) -> int:
        return len(text.split())

    def embed_passages(self, texts: Sequence[str], *, progress: Any = None) -> Matrix:
        return np.tile(np.eye(DIMENSION, dtype=np.float32)[0], (len(texts), 1))


def documents(first: int, last: int) -> Iterator[RawDocument]:
    """Of random words, as frequent as words are (Zipf)."""
    words = np.random.default_rng(first).zipf(1.3, (last - first, WORDS)) % 50_000
    for number, row in zip(range(first, last), words, strict=True):
        text = " ".join(f"w{word}" for word in row)
        yield RawDocument(f"{SOURCE}/{number}", SOURCE, f"Document {number}", text, path=str(number))


def index(store: ClusteredStore, items: Iterable[RawDocument]) -> float:
    """As a message is indexed; seconds."""
    began_s = time.monotonic()
    with store.exclusive(NAMESPACE):
        index_documents(
            items,
            store=store,
            embedder=cast("Any", NoModel()),
            namespace=NAMESPACE,
            manifest=MANIFEST,
            source=SOURCE,
        )
        store.settle(NAMESPACE)
    return time.monotonic() - began_s


def measure(store: ClusteredStore, there: int, wanted: int, messages: int) -> dict[str, object]:
    """Bring the namespace to `wanted` documents, then hand in one after the other."""
    began_s = time.monotonic()
    for first in range(there, wanted, _BATCH):
        index(store, list(documents(first, min(first + _BATCH, wanted))))
    filled_s = time.monotonic() - began_s
    changed = [list(documents(10**9 + n, 10**9 + n + 1)) for n in range(wanted, wanted + messages)]
    took_ms = [index(store, one) * 1_000 for one in changed]
    return {
        "v": 1,
        "documents": wanted,
        "filling_ms_a_document": round(filled_s / max(1, wanted - there) * 1_000, 2),
        "message_p50_ms": round(statistics.median(took_ms), 1),
        "message_worst_ms": round(max(took_ms), 1),
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, nargs="+", default=[10_000, 100_000, 300_000])
    parser.add_argument("--messages", type=int, default=30)
    asked = parser.parse_args()
    server = make_url(os.environ["CHORALE_TEST_POSTGRESQL_URL"])
    name = f"chorale_bench_{uuid.uuid4().hex[:10]}"
    administrator = create_engine(server, isolation_level="AUTOCOMMIT")
    with administrator.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    address = server.set(database=name).render_as_string(hide_password=False)
    stores = {"texts": cast("Store", Nowhere()), "vectors": cast("Store", Nowhere())}
    store = ClusteredStore(stores, DocumentTable(Database(address)))
    there = 0
    try:
        store.create(NAMESPACE, MANIFEST)
        for wanted in asked.documents:
            print(json.dumps(measure(store, there, wanted, asked.messages)), flush=True)
            there = wanted
    finally:
        store.close()
        with administrator.connect() as connection:
            connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
        administrator.dispose()


if __name__ == "__main__":
    main()
