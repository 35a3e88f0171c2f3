"""Comparing what stores show with the table of documents, and repairing it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from models.errors import StoreUnavailable
from search.documents.snapshot import copy_table, still, table_from
from search.documents.store import DocumentStore
from search.documents.verifying import Difference
from search.embedded.store import EmbeddedStore
from tests.support.stores.failing_store import FailingStore
from tests.support.stores.several_stores import MANIFEST, NS, a_document, opened, shown


def test_verify_finds_and_repairs_missing_changed_and_surplus_documents(
    store: DocumentStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    store.upsert(NS, [a_document(name, passages=2) for name in "abcd"])
    assert not any(store.verify(NS, mends=False).values())
    vectors.delete(NS, ["a"])
    EmbeddedStore.upsert(vectors, NS, [a_document("b", revision="0"), a_document("c"), a_document("z")])
    found = store.verify(NS, mends=False)
    assert not found["texts"]
    assert found["vectors"] == Difference(["a"], ["b"], ["b", "c"], ["z"])
    assert store.verify(NS, mends=True) == found
    assert not any(store.verify(NS, mends=False).values())
    assert shown(texts) == shown(vectors) == dict.fromkeys("abcd", "1")
    assert texts.generation(NS) == vectors.generation(NS) == store.generation(NS)


def test_verify_deletes_documents_that_a_restored_table_does_not_know(
    tmp_path: Path, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    table, backup = tmp_path / "documents.db", tmp_path / "backup.db"
    store = opened(f"sqlite:///{table}", texts, vectors)
    store.create(NS, MANIFEST)
    store.upsert(NS, [a_document("a")])
    with still(table, []) as (source, _):
        copy_table(source, backup)
    store.upsert(NS, [a_document("b"), replace(a_document("c"), source="later"), a_document("a", "sold")])
    store.create("since", MANIFEST)
    store.upsert("since", [a_document("d")])
    store.close()
    table.unlink()
    table_from(backup, table, generations={}, to_rebuild=[])

    store = opened(f"sqlite:///{table}", texts, vectors)
    found = store.verify(NS, mends=False)
    assert [one.surplus for one in found.values()] == [["b", "c"]] * 2
    assert store.verify(NS, mends=True) == found
    assert texts.revisions(NS) == vectors.revisions(NS) == store.revisions(NS) == {"a": "1"}
    assert not any(store.verify(NS, mends=False).values())
    vectors.failure = StoreUnavailable("away")
    EmbeddedStore.upsert(vectors, NS, [replace(a_document("c"), source="later")])
    assert store.verify(NS, mends=True)["vectors"].failure == "away"
    assert [state.name for state in store.namespaces()] == [NS]
    store.create("since", MANIFEST)
    assert store.drop("since")
    assert [state.name for one in (texts, vectors) for state in one.namespaces()] == [NS, NS]
    store.close()
