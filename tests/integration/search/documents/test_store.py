"""Several stores written as one: what they show, and failures of one of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import create_engine, func, select

from models.documents import Document, Passage
from models.errors import (
    InvalidAnswer,
    NotEverywhere,
    StageFailure,
    StoreUnavailable,
    WriterBusy,
)
from search.documents.database import Database
from search.documents.document_table import DocumentTable
from search.documents.store import DocumentStore, Rebuilding
from search.engines.embedded.store import EmbeddedStore
from tests.support.servers.databases import empty_database
from tests.support.stores.failing_store import FailingStore
from tests.support.stores.several_stores import MANIFEST, NS, a_document, indexed_revisions, opened


def test_every_store_shows_a_batch_under_one_generation(
    store: DocumentStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    store.table.raise_generation(NS, 6)
    batch = [a_document("a"), a_document("b", passages=2), a_document("a", revision="2")]
    generation = store.upsert(NS, batch)
    assert (
        indexed_revisions(texts)
        == indexed_revisions(vectors)
        == store.revisions(NS, "tests")
        == {"a": "2", "b": "1"}
    )
    assert generation == texts.generation(NS) == vectors.generation(NS) == store.generation(NS) == 7
    (state,) = store.namespaces()
    assert (state.name, state.documents, state.passages, state.generation) == (NS, 2, 3, 7)
    assert state.manifest == MANIFEST
    assert store.unwritten(NS) == {}


def test_a_document_that_one_store_refuses_is_in_the_others_and_is_written_later(
    store: DocumentStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    vectors.refused = {"b": "too large"}
    with pytest.raises(NotEverywhere) as raised:
        store.upsert(NS, [a_document("a"), a_document("b")])
    assert raised.value.failures == {"b": "vectors: too large"} == store.unwritten(NS)
    assert raised.value.generation == 1
    assert (indexed_revisions(texts), indexed_revisions(vectors)) == ({"a": "1", "b": "1"}, {"a": "1"})
    assert store.settle(NS) == {"b": "vectors: too large"}
    assert store.generation(NS) == 1
    vectors.refused = {}
    vectors.written.clear()
    assert store.settle(NS) == {}
    assert vectors.written == [["b"]]
    assert indexed_revisions(vectors) == {"a": "1", "b": "1"}
    assert store.generation(NS) == texts.generation(NS) == vectors.generation(NS) == 2


def test_the_table_returns_a_document_without_characters_that_no_database_takes(
    store: DocumentStore, vectors: FailingStore
) -> None:
    vectors.failure = StoreUnavailable("away")
    document = a_document("a", "rent is \x00 due \ud800", passages=3)
    bare = Document("bare", "tests", "", (Passage("bare#0", 0, "no vector"),))
    with pytest.raises(NotEverywhere):
        store.upsert(NS, [document, bare])
    changes = store.table.changes(store.known(NS), ["a", "bare", "gone"], 1)
    expected = [repr(a_document("a", "rent is \ufffd due ?", passages=3)), repr(bare)]
    assert sorted(map(repr, changes.documents)) == expected
    assert changes.deleted == ["gone"]


def test_an_unavailable_store_is_tried_three_times_and_then_skipped(
    store: DocumentStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    vectors.failure = StoreUnavailable("connection refused")
    for name in ("a", "b"):
        with pytest.raises(NotEverywhere, match="vectors: connection refused"):
            store.upsert(NS, [a_document(name)])
    assert vectors.written == [["a"], ["a"], ["a"]]
    assert indexed_revisions(texts) == {"a": "1", "b": "1"}
    vectors.failure = None
    assert store.settle(NS) == {}
    assert vectors.written[3:] == [["a", "b"]]
    assert indexed_revisions(vectors) == indexed_revisions(texts)


def test_one_document_that_a_store_cannot_take_does_not_keep_out_the_others(
    store: DocumentStore, vectors: FailingStore
) -> None:
    def choke() -> None:
        vectors.failure = StageFailure("cannot say which") if "d3" in vectors.written[-1] else None

    vectors.before_write = choke
    with pytest.raises(NotEverywhere) as raised:
        store.upsert(NS, [a_document(f"d{number}") for number in range(8)])
    assert raised.value.failures == {"d3": "vectors: cannot say which"}
    assert sorted(indexed_revisions(vectors)) == [f"d{number}" for number in range(8) if number != 3]


def test_deletes_and_replacements_reach_every_store(
    store: DocumentStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    store.upsert(NS, [a_document("a", passages=3), a_document("b"), a_document("c")])
    vectors.failure = InvalidAnswer("no JSON")
    with pytest.raises(NotEverywhere) as raised:
        store.delete(NS, ["b", "b", "unknown"])
    assert raised.value.failures == {"b": "vectors: no JSON"} == store.settle(NS)
    vectors.failure = StoreUnavailable("away")
    with pytest.raises(NotEverywhere):
        store.upsert(NS, [a_document("a", revision="2")])
    assert store.revisions(NS, "tests") == indexed_revisions(texts) == {"a": "2", "c": "1"}
    assert indexed_revisions(vectors) == {"a": "1", "b": "1", "c": "1"}
    vectors.failure = None
    assert store.settle(NS) == {}
    assert indexed_revisions(vectors) == {"a": "2", "c": "1"}
    assert set(vectors.vectors(NS, ["a#0", "a#1", "a#2", "b#0"])) == {"a#0"}
    assert store.delete(NS, ["c", "unknown"]) == 1
    assert indexed_revisions(texts) == indexed_revisions(vectors) == {"a": "2"}
    store.upsert(NS, [a_document("b", revision="3")])  # a deleted document can be indexed again
    assert (
        indexed_revisions(texts)
        == indexed_revisions(vectors)
        == store.revisions(NS, "tests")
        == {"a": "2", "b": "3"}
    )


def test_a_store_that_is_declared_later_receives_everything(
    store: DocumentStore, url: str, texts: EmbeddedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("search.documents.document_rows._PORTION", 10)
    store.upsert(NS, [a_document(f"d{number}") for number in range(3)])
    store.upsert(NS, [a_document(f"e{number}") for number in range(8)])
    store.upsert(NS, [a_document("last")])
    new = FailingStore(tmp_path / "new")
    later = opened(url, texts=texts, new=new)
    assert later.settle(NS) == {}
    assert indexed_revisions(new) == indexed_revisions(texts)
    # Portions of whole batches.
    assert [len(batch) for batch in new.written] == [11, 1]
    later.close()


def test_each_namespace_has_one_writer_at_a_time(store: DocumentStore, url: str, tmp_path: Path) -> None:
    other = opened(url, texts=EmbeddedStore(tmp_path / "1"))
    with store.exclusive(NS), store.exclusive(NS), ThreadPoolExecutor(1) as thread:
        for writer in (other, store):
            with pytest.raises(WriterBusy, match="law"):
                thread.submit(writer.upsert, NS, [a_document("a")]).result()
    # A write to the table holds the namespace by itself.
    with other.exclusive(NS), pytest.raises(WriterBusy, match="law"):
        store.table.put(store.known(NS), [a_document("b")])
    other.close()
    assert store.upsert(NS, [a_document("a")]) == 1


def test_a_writer_whose_lock_connection_is_lost_writes_nothing_more(tmp_path: Path) -> None:
    with empty_database("postgresql", tmp_path) as url:
        table, server = (
            DocumentTable(url, writer_wait_s=0.2),
            create_engine(url, isolation_level="AUTOCOMMIT"),
        )
        other = DocumentTable(url, writer_wait_s=30)
        with table.exclusive(NS):
            table.raise_generation(NS, 1)
            with table.writing(NS) as connection:
                backend = connection.scalar(select(func.pg_backend_pid()))
            with server.connect() as administrator:
                administrator.execute(select(func.pg_terminate_backend(backend)))
            for generation in (2, 3, 4):
                with pytest.raises(StoreUnavailable):
                    table.raise_generation(NS, generation)
            with other.exclusive(NS):
                assert other.raise_generation(NS, 10) == 10
                with pytest.raises(StoreUnavailable, match="held namespace 'law' is lost"):
                    table.raise_generation(NS, 11)
        with table.exclusive(NS):
            assert table.raise_generation(NS, 11) == 11
        for one in (table, other):
            one.close()
        server.dispose()


def test_an_unknown_or_silent_database_is_named_without_its_password() -> None:
    database = Database("postgresql://user:secret@127.0.0.1:1/x")
    with pytest.raises(StoreUnavailable, match=r"user:\*\*\*@127\.0\.0\.1:1") as raised, database.snapshot():
        pass
    assert "secret" not in str(raised.value)


def test_revisions_can_be_read_by_document_id(store: DocumentStore) -> None:
    store.upsert(NS, [a_document("a", revision="7"), a_document("b"), a_document("gone")])
    store.delete(NS, ["gone"])
    ids = ["a", "gone", "never"]
    assert store.revisions_of(NS, ids) == store.revisions_of(NS, ids, source="tests") == {"a": "7"}
    assert store.revisions_of(NS, ids, source="elsewhere") == {}
    made = Rebuilding(store, NS, MANIFEST)
    assert made.revisions_of(NS, ids) == {}
    made.upsert(NS, [a_document("a", revision="8")])
    assert (made.revisions_of(NS, ids), store.revisions_of(NS, ids)) == ({"a": "8"}, {"a": "7"})
