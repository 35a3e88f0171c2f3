"""Moving a namespace between stores: what is written meanwhile, and moves that fail, are repeated or given up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from models.errors import BadIndex, NotConfigured, StoreUnavailable, WriterBusy
from search.documents import document_rows, moving
from search.documents.moving import move
from search.documents.store import DocumentStore, Rebuilding
from search.engines.embedded.store import EmbeddedStore
from search.protocol import Search
from tests.support.stores.failing_store import FailingStore
from tests.support.stores.several_stores import MANIFEST, NS, a_document, indexed_revisions

DATABASES = ("sqlite",)
on_both = pytest.mark.parametrize("shared_url", ["sqlite", "postgresql"], indirect=True, scope="module")


@pytest.fixture(autouse=True)
def turns_of_two_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_rows, "_PORTION", 2)
    monkeypatch.setattr(moving, "_TURN_S", -1.0)
    monkeypatch.setattr(moving, "_PAUSE_S", 0.0)


@pytest.fixture
def in_texts(store: DocumentStore) -> DocumentStore:
    """Six documents, which only the store `texts` has."""
    move(store, NS, ["texts"])
    for name in "abcdef":
        store.upsert(NS, [a_document(name)])
    return store


def indexes(store: EmbeddedStore) -> list[Path]:
    return [*(store._folder / "lexical").glob("*")]


def serving(*stores: EmbeddedStore) -> list[str]:
    return [store.documents.serving(NS, 30) for store in stores]


def away(*_: Any) -> None:
    raise StoreUnavailable("away")


@on_both
def test_a_namespace_moves_while_documents_are_written_and_deleted(
    in_texts: DocumentStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    assert serving(texts, vectors) == ["texts", "texts"]
    assert indexes(vectors) == []
    before = in_texts.generation(NS)
    writes: list[Callable[[], object]] = [
        lambda: in_texts.upsert(NS, [a_document("g")]),
        lambda: in_texts.upsert(NS, [a_document("a", revision="2")]),
        lambda: in_texts.delete(NS, ["b", "f"]),
        # The last one comes when nothing was left to write.
        lambda: in_texts.upsert(NS, [a_document("h")]),
    ]
    seen: list[int] = []

    def write(remaining: int) -> None:
        assert serving(texts, vectors) == ["texts", "texts"]
        seen.append(remaining)
        if writes:
            writes.pop(0)()
            assert in_texts.unwritten(NS) == {}

    move(in_texts, NS, ["vectors"], progress=write)
    assert seen[:2] == [4, 3], "six documents less a turn of two; then one more was written"
    assert writes == []
    assert serving(texts, vectors) == ["vectors", "vectors"]
    expected = {"a": "2", "c": "1", "d": "1", "e": "1", "g": "1", "h": "1"}
    assert indexed_revisions(vectors) == in_texts.revisions(NS) == expected
    assert indexes(texts) == []
    assert in_texts.generation(NS) > before
    in_texts.upsert(NS, [a_document("i")])
    assert indexed_revisions(vectors) == {**expected, "i": "1"}
    assert not any(in_texts.verify(NS, mends=False).values())


def test_a_store_that_a_namespace_left_still_reads_texts_and_lists_and_names_the_store_that_searches(
    in_texts: DocumentStore, vectors: FailingStore
) -> None:
    assert vectors.texts(NS, ["a#0"], timeout_s=30)["a#0"].text == "rent 0"
    listed = vectors.list_documents(NS, Search(10, timeout_s=30), order_by="year", descending=False)
    assert [hit.document_id for hit in listed.hits] == list("abcdef")
    with pytest.raises(BadIndex, match="was moved from the store 'vectors' to 'texts'"):
        vectors.search_text(NS, ["rent"], Search(10, timeout_s=30))


def test_a_move_that_failed_leaves_the_old_store_serving_and_goes_on_where_it_was(
    in_texts: DocumentStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    vectors.written.clear()

    def lose_the_server(remaining: int) -> None:
        vectors.failure = StoreUnavailable("away") if remaining == 2 else None

    with pytest.raises(StoreUnavailable, match="away"):
        move(in_texts, NS, ["vectors"], progress=lose_the_server)
    assert serving(texts, vectors) == ["texts", "texts"]
    assert indexed_revisions(texts) == dict.fromkeys("abcdef", "1")
    in_texts.upsert(NS, [a_document("g")])
    in_texts.delete(NS, ["a"])
    vectors.failure = None
    move(in_texts, NS, ["vectors"])
    assert vectors.written[:2] == [["a", "b"], ["c", "d"]]
    assert [names.count("c") for names in vectors.written].count(1) == 1, (
        "a turn that was written is not repeated"
    )
    assert indexed_revisions(vectors) == dict.fromkeys("bcdefg", "1")


def test_a_move_to_the_present_store_gives_up_an_unfinished_one(
    in_texts: DocumentStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    def give_up(remaining: int) -> None:
        assert len(indexes(vectors)) == 1
        move(in_texts, NS, ["texts"])

    with pytest.raises(WriterBusy, match="gave this one up"):
        move(in_texts, NS, ["vectors"], progress=give_up)
    assert indexes(vectors) == []
    assert serving(texts, vectors) == ["texts", "texts"]
    assert indexed_revisions(texts) == dict.fromkeys("abcdef", "1")


def test_a_move_waits_for_a_batch_that_takes_longer_than_writers_wait(
    in_texts: DocumentStore, vectors: FailingStore
) -> None:
    writers: list[threading.Thread] = []

    def write_a_long_batch(remaining: int) -> None:
        if remaining == 4:
            writers.append(threading.Thread(target=hold))
            writers[0].start()

    def hold() -> None:
        with in_texts.table.exclusive(NS, wait_s=30):
            time.sleep(1)  # writers of this store wait 0.2 s

    move(in_texts, NS, ["vectors"], progress=write_a_long_batch)
    writers[0].join()
    assert indexed_revisions(vectors) == dict.fromkeys("abcdef", "1")


def test_a_reader_of_a_store_that_a_namespace_left_is_dropped(
    in_texts: DocumentStore, texts: EmbeddedStore
) -> None:
    texts.search_text(NS, ["rent"], Search(10, timeout_s=30))
    assert [*texts._readers] == [NS]
    move(in_texts, NS, ["vectors"])
    texts.generation(NS)
    assert [*texts._readers] == []


def test_a_store_that_refuses_or_loses_a_document_does_not_serve(
    in_texts: DocumentStore, texts: EmbeddedStore, vectors: FailingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors.refused = {"c": "too long"}
    with pytest.raises(
        StoreUnavailable, match=r"first \['c'\]\): too long; the namespace is still served by texts"
    ):
        move(in_texts, NS, ["vectors"])
    vectors.refused = {}
    write = FailingStore.write
    losing: list[str] = ["d"]

    def lose(self: FailingStore, index: Any, documents: Any, deleted: Any) -> None:
        retained = [document for document in documents if document.document_id not in losing]
        write(self, index, retained, deleted)

    monkeypatch.setattr(FailingStore, "write", lose)
    in_texts.upsert(NS, [a_document("d", revision="2")])
    with pytest.raises(StoreUnavailable, match=r"1 differ, first \['d'\]"):
        move(in_texts, NS, ["vectors"])
    assert serving(vectors) == ["texts"]
    losing.clear()
    move(in_texts, NS, ["vectors"])
    assert indexed_revisions(vectors) == in_texts.revisions(NS)


def test_an_old_index_whose_server_is_away_is_dropped_later(
    in_texts: DocumentStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    texts.drop = away  # type: ignore[assignment,method-assign]
    move(in_texts, NS, ["vectors"])
    assert serving(texts) == ["vectors"]
    assert len(indexes(texts)) == 1
    del texts.drop
    in_texts.settle(NS)
    assert indexes(texts) == []


@on_both
def test_a_namespace_stays_where_it_was_moved_when_it_is_embedded_again(
    in_texts: DocumentStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    anew = Rebuilding(in_texts, NS, MANIFEST)
    anew.upsert(NS, [a_document("z")])
    move(in_texts, NS, ["vectors"])
    anew.finish()
    assert serving(texts, vectors) == ["vectors", "vectors"]
    assert indexed_revisions(vectors) == {"z": "1"}
    assert indexes(texts) == []


def test_a_namespace_moves_back_to_both_stores(
    in_texts: DocumentStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    move(in_texts, NS, ["texts", "vectors"])
    assert serving(texts, vectors) == ["texts", "vectors"]
    assert indexed_revisions(texts) == indexed_revisions(vectors) == dict.fromkeys("abcdef", "1")


def test_an_unknown_store_is_refused_with_the_stores_that_there_are(store: DocumentStore) -> None:
    with pytest.raises(
        NotConfigured, match="no store 'qdrant' takes documents here; there are: texts, vectors"
    ):
        move(store, NS, ["texts", "qdrant"])


def test_a_store_that_is_no_longer_declared_is_named(in_texts: DocumentStore, vectors: FailingStore) -> None:
    without = DocumentStore({"vectors": vectors}, in_texts.table)
    with pytest.raises(BadIndex, match="was moved to texts, which is not here; there are: vectors"):
        without.upsert(NS, [a_document("g")])
