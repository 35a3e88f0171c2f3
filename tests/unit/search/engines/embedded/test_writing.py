"""Writing to the embedded store."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from models.documents import Document, Passage
from models.errors import InvalidAnswer, PartlyWritten, WrongDeclaration
from tests.contracts.store_documents import MANIFEST, UP, document
from tests.support.stores.embedded_searches import names
from tests.support.stores.one_engine import OneEngine


def test_a_document_without_passages_is_counted_and_the_last_of_two_equal_ids_counts(
    store: OneEngine,
) -> None:
    store.upsert("ns", [document("a"), document("b", "pear"), document("b", "plum")])
    assert store.revisions("ns", "docs") == {"a": "1", "b": "1"}
    assert (names(store, "pear"), names(store, "plum")) == ([], ["b"])
    assert store.delete("ns", ["a"]) == 1


def test_a_batch_with_a_vector_of_another_length_or_a_repeated_passage_is_refused_whole(
    store: OneEngine,
) -> None:
    for wrong, message in (
        (document("b", "x", vectors=(UP * 2,)), "length 2"),
        (Document("b", "docs", "", (Passage("a#0", 0, "x"), Passage("a#0", 1, "y"))), "twice"),
    ):
        with pytest.raises(InvalidAnswer, match=message):
            store.upsert("ns", [document("a", "pear"), wrong])
    assert names(store, "pear") == []
    assert store.generation("ns") == 0


def test_a_document_that_no_database_takes_is_refused_alone_and_odd_characters_are_replaced(
    store: OneEngine,
) -> None:
    odd = document("b", "lone \ud800 pear")
    with pytest.raises(PartlyWritten) as raised:
        store.upsert("ns", [document("a", "x", metadata={"set": {1}}), odd])
    assert [*raised.value.failures] == ["a"]
    assert "its metadata is not JSON" in raised.value.failures["a"]
    assert store.texts("ns", ["b#0"], timeout_s=30)["b#0"].text == "lone ? pear"


def test_an_invalid_manifest_is_refused(store: OneEngine) -> None:
    for name, manifest in (
        ("../up", MANIFEST),
        ("new", replace(MANIFEST, language="xx")),
        ("new", replace(MANIFEST, title_repeats="often")),
        ("new", replace(MANIFEST, dimension=-1)),
    ):
        with pytest.raises(WrongDeclaration):
            store.create(name, manifest)
    assert [state.name for state in store.namespaces()] == ["ns"]


def test_a_replaced_document_leaves_no_text_and_no_vector(store: OneEngine, folder: Path) -> None:
    store.upsert("ns", [document("a", "private words")])
    store.upsert("ns", [document("a", "public")])
    with sqlite3.connect(folder / "corpus.db") as connection:
        rows = connection.execute("SELECT text, vector IS NULL FROM chorale_passage ORDER BY rid").fetchall()
    connection.close()
    assert rows == [("", 1), ("public", 0)]
