"""Comparing what stores show with the documents' database, and repairing it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from models.errors import BadIndex, StoreUnavailable
from search.documents.snapshot import copy_documents, documents_from
from search.documents.store import DocumentStore
from search.documents.verifying import Difference
from search.engines.embedded.store import EmbeddedStore
from search.protocol import Entry, Index
from tests.support.stores.failing_store import FailingStore
from tests.support.stores.several_stores import MANIFEST, NS, a_document, indexed_revisions, opened


def test_verify_finds_and_repairs_missing_changed_and_surplus_documents(
    store: DocumentStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    store.upsert(NS, [a_document(name, passages=2) for name in "abcd"])
    assert not any(store.verify(NS, mends=False).values())
    before = indexed_revisions(vectors)

    def entries(index: Index) -> Iterator[Entry]:
        """A server whose index somebody has changed: one document is gone, one is old, one is not whole, one is foreign."""
        if vectors.written:
            yield from EmbeddedStore.entries(vectors, index)
            return
        yield from (Entry("b", f"b#{place}", "0") for place in range(2))
        yield Entry("c", "c#0", "1")
        yield from (Entry(name, f"{name}#{place}", "1") for name in "dz" for place in range(2))

    vectors.written.clear()
    vectors.entries = entries  # type: ignore[method-assign]
    differences = store.verify(NS, mends=False)
    assert not differences["texts"]
    assert differences["vectors"] == Difference(["a"], ["b"], ["c"], ["z"])
    one_of_each = {"missing": 1, "outdated": 1, "incomplete": 1, "surplus": 1}
    assert asdict(differences["vectors"])["counts"] == one_of_each, "as `chorale verify --json` prints them"
    generation = store.generation(NS)
    assert store.verify(NS, mends=True) == differences
    assert sorted(vectors.written[0]) == ["a", "b", "c"]
    assert not any(store.verify(NS, mends=False).values())
    assert indexed_revisions(texts) == indexed_revisions(vectors) == before == dict.fromkeys("abcd", "1")
    assert store.generation(NS) > generation
    vectors.written.clear()
    vectors.failure = StoreUnavailable("away")
    assert store.verify(NS, mends=True)["vectors"].failure == "away"


def test_a_full_temporary_disk_is_the_failure_of_a_comparison(
    store: DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect

    def small(name: str, *options: Any, **named: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(name, *options, **named)
        if name == "":
            connection.execute("PRAGMA max_page_count = 1")
        return connection

    monkeypatch.setattr(sqlite3, "connect", small)
    differences = store.verify(NS, mends=False)
    why = "the temporary file of the comparison cannot be used: database or disk is full"
    assert {name: difference.failure for name, difference in differences.items()} == {
        "texts": why,
        "vectors": why,
    }


def test_every_index_is_built_anew_from_a_restored_database(
    tmp_path: Path, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    """One store is declared as a server, whose index a restore cannot remove."""
    file, backup = tmp_path / "documents.db", tmp_path / "backup.db"
    store = opened(f"sqlite:///{file}", texts=texts, vectors=vectors)
    store.create(NS, MANIFEST)
    store.upsert(NS, [a_document("a")])
    assert [state.documents for state in copy_documents(file, backup)] == [1]
    store.upsert(NS, [a_document("b"), a_document("a", revision="2")])
    store.close()
    texts.documents.documents.close()
    file.unlink()
    generations = documents_from(backup, file, generations={NS: 9}, servers=["vectors"])
    assert generations == {NS: 9}

    store = opened(f"sqlite:///{file}", texts=texts, vectors=vectors)
    with pytest.raises(BadIndex, match="`chorale verify --namespace law` builds it"):
        texts.documents.index(NS, 30)
    assert vectors.documents.index(NS, 30) is not None, "the old index is searched until then"
    assert store.settle(NS) == {}
    assert indexed_revisions(texts) == indexed_revisions(vectors) == store.revisions(NS) == {"a": "1"}
    assert len([*(tmp_path / "vectors" / "lexical").iterdir()]) == 1
    assert store.drop(NS)
    assert [*(tmp_path / "texts" / "lexical").iterdir()] == []
    store.close()
