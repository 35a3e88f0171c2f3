"""Writing to the embedded store."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from models.documents import Document, Passage
from models.errors import BadIndex, InvalidAnswer, WriterBusy, WrongDeclaration
from search.embedded.store import EmbeddedStore
from tests.contracts.store_documents import MANIFEST, UP, document
from tests.support.stores.embedded_searches import names


def test_a_document_without_passages_is_counted_and_the_last_of_two_equal_ids_counts(
    store: EmbeddedStore,
) -> None:
    store.upsert("ns", [document("a"), document("b", "pear"), document("b", "plum")])
    assert store.revisions("ns", "docs") == {"a": "1", "b": "1"}
    assert (names(store, "pear"), names(store, "plum")) == ([], ["b"])
    assert store.delete("ns", ["a"]) == 1


def test_a_batch_with_an_invalid_document_is_refused_whole(store: EmbeddedStore) -> None:
    for wrong, message in (
        (document("b", "lone \ud800"), "cannot be encoded"),
        (document("b", "x", metadata={"set": {1}}), "cannot be stored"),
        (document("b", "x", vectors=(UP * 2,)), "length 2"),
        (Document("b", "docs", "", (Passage("a#0", 0, "x"), Passage("a#0", 1, "y"))), "twice"),
    ):
        with pytest.raises(InvalidAnswer, match=message):
            store.upsert("ns", [document("a", "pear"), wrong])
    assert names(store, "pear") == []
    assert store.generation("ns") == 0


def test_an_invalid_manifest_is_refused(store: EmbeddedStore) -> None:
    for name, manifest in (
        ("../up", MANIFEST),
        ("new", replace(MANIFEST, language="xx")),
        ("new", replace(MANIFEST, title_repeats="often")),
        ("new", replace(MANIFEST, dimension=-1)),
    ):
        with pytest.raises(WrongDeclaration):
            store.create(name, manifest)
    assert [state.name for state in store.namespaces()] == ["ns"]


def test_a_second_writer_is_refused_and_another_namespace_is_not(store: EmbeddedStore, folder: Path) -> None:
    second = EmbeddedStore(folder, writer_wait_s=0)
    second.create("other", MANIFEST)
    with store.exclusive("ns"):
        store.upsert("ns", [document("a", "pear")])  # the holder may write
        writes: tuple[Callable[[], object], ...] = (
            lambda: second.upsert("ns", [document("b", "pear")]),
            lambda: second.delete("ns", ["a"]),
            lambda: second.drop("ns"),
            lambda: second._writer.rebuild_lexical("ns"),
        )
        for write in writes:
            with pytest.raises(WriterBusy, match="'ns'"):
                write()
        second.upsert("other", [document("b", "pear")])
        assert names(second, "pear") == ["a"]
    second.upsert("ns", [document("b", "pear")])
    assert names(store, "pear") == ["a", "b"]
    second.close()


def test_a_replaced_document_leaves_no_text_and_no_vector(store: EmbeddedStore, folder: Path) -> None:
    store.upsert("ns", [document("a", "private words")])
    store.upsert("ns", [document("a", "public")])
    with sqlite3.connect(folder / "corpus.db") as connection:
        kept = connection.execute("SELECT text, vector IS NULL FROM chorale_passage ORDER BY rid").fetchall()
    connection.close()
    assert kept == [("", 1), ("public", 0)]


def test_revisions_can_be_read_by_document_id(store: EmbeddedStore) -> None:
    store.upsert("ns", [document("a", "x", revision="r1"), document("b", "x", source="elsewhere")])
    store.upsert("ns", [document("a", "x", revision="r2"), document("gone", "x")])
    store.delete("ns", ["gone"])
    many = [f"never {n}" for n in range(500)]
    assert store.held("ns", ["a", "b", "gone", *many]).keys() == {"a", "b"}
    assert store.held("ns", [*many, "a", "b", "gone"], source="docs") == {"a": "r2"}
    assert store.held("ns", []) == {}
    with pytest.raises(BadIndex, match=r"no namespace 'other' in /.*; there are: ns$"):
        store.held("other", ["a"])
