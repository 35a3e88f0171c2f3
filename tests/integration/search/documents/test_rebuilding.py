"""Rebuilding a namespace of several stores beside the one that is searched."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import func, select

from ingest.near_duplicates import NearDuplicates
from models.documents import Manifest
from models.errors import NotEverywhere, StoreUnavailable
from models.tables.documents import near_duplicates_metadata
from search.documents.store import DocumentStore, Rebuilding
from search.engines.embedded.store import EmbeddedStore
from search.protocol import Index
from tests.support.stores.failing_store import FailingStore
from tests.support.stores.several_stores import DIMENSION, MANIFEST, NS, a_document, indexed_revisions


def test_a_rebuild_is_invisible_until_it_is_complete_and_continues_after_an_interruption(
    store: DocumentStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    store.upsert(NS, [a_document("old")])
    other = Manifest(splitter="s2", language="it", analyser="a", embedder="e2", dimension=DIMENSION)
    # What was begun with other settings is not continued.
    Rebuilding(store, NS, MANIFEST).upsert(NS, [a_document("a")])
    begun = Rebuilding(store, NS, other)
    assert begun.revisions(NS, "tests") == {}
    begun.upsert(NS, [a_document("a"), a_document("gone")])
    assert (
        indexed_revisions(texts) == indexed_revisions(vectors) == store.revisions(NS, "tests") == {"old": "1"}
    )
    again = Rebuilding(store, NS, other)
    assert again.revisions(NS, "tests") == {"a": "1", "gone": "1"}
    again.upsert(NS, [a_document("b")])
    again.delete(NS, ["gone"])
    vectors.failure = StoreUnavailable("away")
    again.finish()
    assert indexed_revisions(texts) == {"a": "1", "b": "1"}
    assert set(store.unwritten(NS)) == {"a", "b"}
    vectors.failure = None
    assert store.settle(NS) == {}
    assert (
        indexed_revisions(texts)
        == indexed_revisions(vectors)
        == store.revisions(NS, "tests")
        == {"a": "1", "b": "1"}
    )
    assert [state.manifest for state in store.namespaces()] == [other]
    assert len([*(texts._folder / "lexical").iterdir()]) == 1, "the index of the old build is gone"


def away(_: Index) -> None:
    raise StoreUnavailable("away")


def test_writes_that_a_store_skips_before_its_rebuild_are_reported(
    store: DocumentStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    store.upsert(NS, [a_document("a"), a_document("b")])
    vectors.create = away  # type: ignore[assignment,method-assign]
    anew = Rebuilding(store, NS, MANIFEST)
    anew.upsert(NS, [a_document("a"), a_document("b")])
    anew.finish()
    writes: dict[str, Callable[[], object]] = {
        "a": lambda: store.delete(NS, ["a"]),
        "c": lambda: store.upsert(NS, [a_document("c")]),
    }
    for name, write in writes.items():
        with pytest.raises(NotEverywhere) as raised:
            write()
        assert raised.value.failures == {name: "vectors: the store has not built its index yet"}
    assert indexed_revisions(texts) == {"b": "1", "c": "1"}
    assert indexed_revisions(vectors) == {"a": "1", "b": "1"}
    del vectors.create
    assert store.settle(NS) == {}
    assert indexed_revisions(texts) == indexed_revisions(vectors) == {"b": "1", "c": "1"}


def test_a_rebuild_has_its_own_near_duplicates_which_replace_the_old_ones(store: DocumentStore) -> None:
    def assigned(to: DocumentStore | Rebuilding, name: str) -> str | None:
        groups = NearDuplicates(lambda: to.near_duplicate_rows(NS))
        return groups.assign({name: " ".join(f"word{n}" for n in range(50))})[name]

    def rows() -> list[int | None]:
        with store.table.snapshot() as connection:
            tables = near_duplicates_metadata.sorted_tables
            return [connection.scalar(select(func.count()).select_from(table)) for table in tables]

    assert (assigned(store, "a"), assigned(store, "b")) == (None, "a")
    made = Rebuilding(store, NS, MANIFEST)
    assert (assigned(made, "new"), assigned(store, "c"), assigned(made, "newer")) == (None, "a", "new")
    made.finish()
    assert assigned(store, "d") == "new"
    # One group of three documents, with its 32 bands.
    assert sorted(count or 0 for count in rows()) == [1, 1, 3, 32]
    store.drop(NS)
    assert rows() == [0, 0, 0, 0]
