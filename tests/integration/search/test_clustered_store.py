"""Several stores written as one: what they show, what fails in one of them, and what a crash leaves."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import create_engine, delete, func, select

from ingest.near_duplicates import NearDuplicates
from models.document_tables import state_table
from models.documents import Document, Manifest, Passage
from models.errors import (
    BadIndex,
    InvalidAnswer,
    ManifestMismatch,
    NotEverywhere,
    StageFailure,
    StoreUnavailable,
    WriterBusy,
)
from models.near_duplicate_tables import near_duplicates_metadata
from search.clustered import writes
from search.clustered.database import Database
from search.clustered.rebuilding import Rebuilding
from search.clustered.snapshot import copy_table, still, table_from
from search.clustered.store import ClusteredStore
from search.clustered.table import DocumentTable, Told
from search.clustered.verifying import Difference
from search.embedded.store import EmbeddedStore
from tests.databases import empty_database
from tests.failing_store import FailingStore

DIMENSION = 4
MANIFEST = Manifest(splitter="s", language="en", analyser="a", embedder="e", dimension=DIMENSION)
NS = "law"
FORK = multiprocessing.get_context("fork")


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


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with empty_database(request.param, tmp_path) as url:
        yield url


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes, "PAUSES_S", (0.0, 0.0))


@pytest.fixture
def texts(tmp_path: Path) -> EmbeddedStore:
    return EmbeddedStore(tmp_path / "texts")


@pytest.fixture
def vectors(tmp_path: Path) -> FailingStore:
    return FailingStore(tmp_path / "vectors")


def opened(url: str, texts: EmbeddedStore, vectors: EmbeddedStore) -> ClusteredStore:
    return ClusteredStore(
        {"texts": texts, "vectors": vectors}, DocumentTable(Database(url, writer_wait_s=0.2))
    )


@pytest.fixture
def store(url: str, texts: EmbeddedStore, vectors: FailingStore) -> Iterator[ClusteredStore]:
    store = opened(url, texts, vectors)
    store.create(NS, MANIFEST)
    yield store
    store.close()


def shown(store: EmbeddedStore) -> dict[str, str]:
    return store.revisions(NS, "tests")


def test_every_store_shows_a_batch_under_one_generation(
    store: ClusteredStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    texts.raise_generation(NS, 6)
    generation = store.upsert(
        NS, [a_document("a"), a_document("b", passages=2), a_document("a", revision="2")]
    )
    assert shown(texts) == shown(vectors) == store.revisions(NS, "tests") == {"a": "2", "b": "1"}
    # One store had been at 6: its batch made it 7.
    assert generation == texts.generation(NS) == vectors.generation(NS) == store.generation(NS) == 7
    (state,) = store.namespaces()
    assert (state.name, state.documents, state.passages, state.generation) == (NS, 2, 3, 7)
    assert state.manifest == MANIFEST
    assert store.unwritten(NS) == {}


def test_what_one_store_refuses_is_in_the_others_and_is_written_once_it_takes_it(
    store: ClusteredStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    vectors.refused = {"b": "too large"}
    with pytest.raises(NotEverywhere) as raised:
        store.upsert(NS, [a_document("a"), a_document("b")])
    assert raised.value.failures == {"b": "vectors: too large"} == store.unwritten(NS)
    assert raised.value.generation == 1
    assert (shown(texts), shown(vectors)) == ({"a": "1", "b": "1"}, {"a": "1"})
    assert store.settle(NS) == {"b": "vectors: too large"}
    assert store.generation(NS) == 1
    vectors.refused = {}
    vectors.written.clear()
    assert store.settle(NS) == {}
    assert vectors.written == [["b"]]
    assert shown(vectors) == {"a": "1", "b": "1"}
    assert store.generation(NS) == texts.generation(NS) == vectors.generation(NS) == 2


def test_a_document_comes_back_from_the_table_as_it_was(store: ClusteredStore, vectors: FailingStore) -> None:
    vectors.failure = StoreUnavailable("away")
    document = a_document("a", "rent is \x00 due \ud800", passages=3)
    bare = Document("bare", "tests", "", (Passage("bare#0", 0, "no vector"),))
    with pytest.raises(NotEverywhere):
        store.upsert(NS, [document, bare])
    kept = {
        change.document_id: change.document for change in store.table.changes(store.known(NS), ["a", "bare"])
    }
    assert repr(kept["a"]) == repr(document)
    assert kept["bare"] == bare


def test_a_store_that_is_away_is_tried_three_times_and_then_left_alone(
    store: ClusteredStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    vectors.failure = StoreUnavailable("connection refused")
    for name in ("a", "b"):
        with pytest.raises(NotEverywhere, match="vectors: connection refused"):
            store.upsert(NS, [a_document(name)])
    assert vectors.written == [["a"], ["a"], ["a"]]
    assert shown(texts) == {"a": "1", "b": "1"}
    vectors.failure = None
    assert store.settle(NS) == {}
    assert vectors.written[3:] == [["a", "b"]]
    assert shown(vectors) == shown(texts)


def test_a_failure_that_passes_is_not_reported(store: ClusteredStore, vectors: FailingStore) -> None:
    def recovers() -> None:
        vectors.failure = StoreUnavailable("for a moment") if len(vectors.written) == 1 else None

    vectors.before_write = recovers
    assert store.upsert(NS, [a_document("a")]) == 1
    assert len(vectors.written) == 2


def test_one_document_that_a_store_cannot_take_keeps_no_other_from_it(
    store: ClusteredStore, vectors: FailingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def choke() -> None:
        vectors.failure = StageFailure("cannot say which") if "d3" in vectors.written[-1] else None

    vectors.before_write = choke
    with pytest.raises(NotEverywhere) as raised:
        store.upsert(NS, [a_document(f"d{number}") for number in range(8)])
    assert raised.value.failures == {"d3": "vectors: cannot say which"}
    assert sorted(shown(vectors)) == [f"d{number}" for number in range(8) if number != 3]


def test_deletes_and_replacements_reach_every_store(
    store: ClusteredStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    store.upsert(NS, [a_document("a", passages=3), a_document("b"), a_document("c")])
    vectors.failure = StoreUnavailable("away")
    with pytest.raises(NotEverywhere) as raised:
        store.delete(NS, ["b", "b", "unknown"])
    assert raised.value.failures == {"b": "vectors: away"}
    with pytest.raises(NotEverywhere):
        store.upsert(NS, [a_document("a", revision="2")])
    assert store.revisions(NS, "tests") == shown(texts) == {"a": "2", "c": "1"}
    assert shown(vectors) == {"a": "1", "b": "1", "c": "1"}
    vectors.failure = None
    assert store.settle(NS) == {}
    assert shown(vectors) == {"a": "2", "c": "1"}
    assert set(vectors.vectors(NS, ["a#0", "a#1", "a#2", "b#0"])) == {"a#0"}
    assert store.table.changes(store.known(NS), ["b"]) == []
    assert store.delete(NS, ["c", "unknown"]) == 1
    assert shown(texts) == shown(vectors) == {"a": "2"}


def test_a_deleted_document_that_comes_back_is_there(
    store: ClusteredStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    store.upsert(NS, [a_document("a")])
    vectors.failure = StoreUnavailable("away")
    with pytest.raises(NotEverywhere):
        store.delete(NS, ["a"])
    vectors.failure = None
    store.settle(NS)
    store.upsert(NS, [a_document("a", revision="2")])
    assert shown(texts) == shown(vectors) == store.revisions(NS, "tests") == {"a": "2"}


def test_a_store_that_is_declared_later_is_given_everything(
    store: ClusteredStore, url: str, texts: EmbeddedStore, tmp_path: Path
) -> None:
    store.upsert(NS, [a_document(f"d{number:03}") for number in range(300)])
    new = FailingStore(tmp_path / "new")
    later = ClusteredStore({"texts": texts, "new": new}, DocumentTable(Database(url)))
    assert later.settle(NS) == {}
    assert shown(new) == shown(texts)
    assert [len(batch) for batch in new.written if batch] == [256, 44]
    later.close()


def test_one_writer_a_namespace(store: ClusteredStore, url: str, tmp_path: Path) -> None:
    other = opened(url, EmbeddedStore(tmp_path / "1"), EmbeddedStore(tmp_path / "2"))
    with store.exclusive(NS), store.exclusive(NS):
        with pytest.raises(WriterBusy, match="law"):
            other.upsert(NS, [a_document("a")])
        in_thread: list[BaseException] = []

        def write() -> None:
            try:
                store.upsert(NS, [a_document("a")])
            except WriterBusy as error:
                in_thread.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        assert len(in_thread) == 1
    other.close()
    assert store.upsert(NS, [a_document("a")]) == 1


def test_whoever_lost_the_connection_that_held_the_namespace_writes_nothing_more(tmp_path: Path) -> None:
    with empty_database("postgresql", tmp_path) as url:
        database, server = Database(url, writer_wait_s=0.2), create_engine(url, isolation_level="AUTOCOMMIT")
        table, other = DocumentTable(database), DocumentTable(Database(url, writer_wait_s=0.2))
        with table.exclusive(NS):
            table.raise_generation(NS, 1)
            with database.writing(NS) as connection:
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


def test_what_cannot_be_is_refused_before_anything_is_written(
    store: ClusteredStore, vectors: FailingStore
) -> None:
    wrong = Document("a", "tests", "A", (Passage("a#0", 0, "x", vector=np.ones(2, np.float32)),))
    with pytest.raises(InvalidAnswer, match="dimension 4"):
        store.upsert(NS, [a_document("b"), wrong])
    with pytest.raises(ManifestMismatch, match="language"):
        store.create(NS, Manifest("s", "it", "a", "e", DIMENSION))
    with pytest.raises(BadIndex, match="`chorale namespaces list`"):
        store.upsert("nowhere", [a_document("a")])
    assert vectors.written == []
    assert store.upsert(NS, []) == 0


def test_a_namespace_that_is_dropped_and_made_again_never_repeats_a_generation(
    store: ClusteredStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    before = store.upsert(NS, [a_document("a")])
    assert store.drop(NS)
    assert not store.drop(NS)
    assert store.namespaces() == texts.namespaces() == vectors.namespaces() == []
    store.create(NS, MANIFEST)
    assert store.upsert(NS, [a_document("b")]) > before
    assert shown(vectors) == store.revisions(NS, "tests") == {"b": "1"}


def test_a_rebuild_is_not_seen_before_it_is_whole_and_goes_on_after_an_interruption(
    store: ClusteredStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    store.upsert(NS, [a_document("old")])
    other = Manifest(splitter="s2", language="it", analyser="a", embedder="e2", dimension=DIMENSION)
    begun = store.rebuilding(NS, other)
    begun.upsert(NS, [a_document("a"), a_document("gone")])
    assert shown(texts) == shown(vectors) == store.revisions(NS, "tests") == {"old": "1"}
    again = store.rebuilding(NS, other)
    assert again.revisions(NS, "tests") == {"a": "1", "gone": "1"}
    again.upsert(NS, [a_document("b")])
    again.delete(NS, ["gone"])
    vectors.failure = StoreUnavailable("away")
    again.finish()
    assert shown(texts) == {"a": "1", "b": "1"}
    assert set(store.unwritten(NS)) == {"a", "b", "gone"}
    vectors.failure = None
    assert store.settle(NS) == {}
    assert shown(texts) == shown(vectors) == store.revisions(NS, "tests") == {"a": "1", "b": "1"}
    assert [one.namespaces()[0].manifest for one in (store, texts, vectors)] == [other] * 3
    assert texts.generation(NS) == vectors.generation(NS) == store.generation(NS)


def test_one_that_was_begun_with_other_settings_begins_anew(store: ClusteredStore) -> None:
    store.rebuilding(NS, MANIFEST).upsert(NS, [a_document("a")])
    other = Manifest(splitter="s2", language="en", analyser="a", embedder="e", dimension=DIMENSION)
    assert store.rebuilding(NS, other).revisions(NS, "tests") == {}


def write_and_die(url: str, folder: Path, place: int) -> None:
    """In a process of its own, which is killed on the way."""
    texts, vectors = FailingStore(folder / "texts"), FailingStore(folder / "vectors")
    store = opened(url, texts, vectors)

    def kill(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    places = (
        (store.table, "put"),
        (texts, "before_write"),
        (store.table, "record"),
        (store.table, "raise_generation"),
        # Last, so that what one store shows and the other does not is left.
        (vectors, "before_write"),
    )
    target, name = places[place]
    setattr(target, name, kill)
    store.upsert(NS, [a_document(f"d{number}", revision=str(place + 2)) for number in range(5)])


def test_a_writer_that_is_killed_anywhere_loses_nothing_and_doubles_nothing(
    url: str, tmp_path: Path, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    store = opened(url, texts, vectors)
    store.create(NS, MANIFEST)
    store.upsert(NS, [a_document(f"d{number}", passages=2) for number in range(5)])
    store.close()
    for place in range(5):
        process = FORK.Process(target=write_and_die, args=(url, tmp_path, place))
        process.start()
        process.join(30)
        assert process.exitcode == -signal.SIGKILL
    kept = store.revisions(NS, "tests")
    # The first was killed before its batch was in the table, the others after.
    assert kept == {f"d{number}": "6" for number in range(5)}
    before = store.generation(NS)
    assert store.settle(NS) == {}
    assert shown(texts) == shown(vectors) == kept
    assert [one.namespaces()[0].passages for one in (store, texts, vectors)] == [5, 5, 5]
    assert store.generation(NS) == texts.generation(NS) == vectors.generation(NS) > before
    assert store.settle(NS) == {}
    store.close()


def test_verify_finds_and_mends_what_a_store_lost_changed_or_has_too_much(
    store: ClusteredStore, texts: EmbeddedStore, vectors: FailingStore
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


def test_verify_deletes_what_a_table_that_was_restored_does_not_know(
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


def test_verify_makes_the_namespace_that_a_store_lost(store: ClusteredStore, vectors: FailingStore) -> None:
    store.upsert(NS, [a_document("a"), a_document("b")])
    vectors.drop(NS)
    assert store.verify(NS, mends=True)["vectors"].missing == ["a", "b"]
    assert store.unwritten(NS) == {}
    assert shown(vectors) == {"a": "1", "b": "1"}


def test_a_store_that_lost_its_namespace_is_given_everything_again(
    store: ClusteredStore, vectors: FailingStore
) -> None:
    everything = {f"d{number}": "1" for number in range(5)}
    store.upsert(NS, [a_document(name) for name in everything])
    vectors.drop(NS)
    # A batch finds it missing and goes in all the same.
    store.upsert(NS, [a_document("d0", revision="2")])
    assert shown(vectors) == {"d0": "2"}
    assert store.settle(NS) == {}
    assert shown(vectors) == everything | {"d0": "2"}
    vectors.drop(NS)
    # So does the next run, which makes it before its first batch.
    store.create(NS, MANIFEST)
    assert set(store.unwritten(NS)) == set(everything)
    assert store.settle(NS) == {}
    assert shown(vectors) == everything | {"d0": "2"}
    vectors.drop(NS)
    assert store.settle(NS) == {}
    assert shown(vectors) == everything | {"d0": "2"}


def test_what_was_dropped_in_some_stores_alone_is_whole_again_when_it_is_indexed_again(
    store: ClusteredStore, texts: EmbeddedStore, vectors: FailingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.upsert(NS, [a_document("a"), a_document("b")])

    def away(namespace: str) -> bool:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(vectors, "drop", away)
        with pytest.raises(StoreUnavailable):
            store.drop(NS)
    assert texts.namespaces() == []
    store.create(NS, MANIFEST)
    assert store.settle(NS) == {}
    assert shown(texts) == shown(vectors) == store.revisions(NS, "tests") == {"a": "1", "b": "1"}


def test_a_store_that_answers_nonsense_to_a_deletion_is_asked_again(
    store: ClusteredStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    store.upsert(NS, [a_document("a"), a_document("b")])
    vectors.failure = InvalidAnswer("no JSON")
    with pytest.raises(NotEverywhere) as raised:
        store.delete(NS, ["a"])
    assert raised.value.failures == {"a": "vectors: no JSON"} == store.settle(NS)
    vectors.failure = None
    assert store.settle(NS) == {}
    assert shown(texts) == shown(vectors) == {"b": "1"}


def test_what_a_store_that_waits_for_its_rebuild_does_not_do_is_said(
    store: ClusteredStore, texts: EmbeddedStore, vectors: FailingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.upsert(NS, [a_document("a"), a_document("b")])

    def away(namespace: str) -> bool:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(vectors, "drop", away)
        anew = store.rebuilding(NS, MANIFEST)
        anew.upsert(NS, [a_document("a"), a_document("b")])
        anew.finish()
    with pytest.raises(NotEverywhere) as raised:
        store.delete(NS, ["a"])
    assert raised.value.failures == {"a": "vectors: the store could not be built anew yet"}
    with pytest.raises(NotEverywhere) as raised:
        store.upsert(NS, [a_document("c")])
    assert raised.value.failures == {"c": "vectors: the store could not be built anew yet"}
    assert (shown(texts), shown(vectors)) == ({"b": "1", "c": "1"}, {"a": "1", "b": "1"})
    assert store.settle(NS) == {}
    assert shown(texts) == shown(vectors) == {"b": "1", "c": "1"}


def test_a_store_without_a_rebuild_of_its_own_is_filled_again_after_a_restore(
    tmp_path: Path, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    table, copy, restored = (tmp_path / f"{name}.db" for name in ("documents", "copy", "restored"))
    before = opened(f"sqlite:///{table}", texts, vectors)
    before.create(NS, MANIFEST)
    before.upsert(NS, [a_document("a"), a_document("b")])
    with still(table, []) as (source, _):
        copy_table(source, copy)
    before.close()
    assert not hasattr(vectors, "rebuild")
    table_from(copy, restored, generations={}, to_rebuild=["vectors"])
    store = opened(f"sqlite:///{restored}", texts, vectors)
    assert store.settle(NS) == {}
    assert shown(vectors) == {"a": "1", "b": "1"}
    store.close()


def test_a_database_of_no_kind_or_that_does_not_answer_is_named_without_its_password() -> None:
    database = Database("postgresql://user:secret@127.0.0.1:1/x")
    with pytest.raises(StoreUnavailable) as raised, database.reading():
        pass
    assert "user:***@127.0.0.1:1" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_documents_are_asked_for_by_their_ids(store: ClusteredStore) -> None:
    store.upsert(NS, [a_document("a", revision="7"), a_document("b"), a_document("gone")])
    store.delete(NS, ["gone"])
    asked = ["a", "gone", "never"]
    assert store.held(NS, asked) == store.held(NS, asked, source="tests") == {"a": "7"}
    assert store.held(NS, asked, source="elsewhere") == {}
    made = store.rebuilding(NS, MANIFEST)
    assert made.held(NS, asked) == {}
    made.upsert(NS, [a_document("a", revision="8")])
    assert (made.held(NS, asked), store.held(NS, asked)) == ({"a": "8"}, {"a": "7"})


def test_near_duplicates_of_a_namespace_in_the_making_are_its_own_and_take_the_place_of_the_old_ones(
    store: ClusteredStore,
) -> None:
    def assigned(to: ClusteredStore | Rebuilding, name: str) -> str | None:
        groups = NearDuplicates(lambda: to.notes(NS))
        return groups.assign({name: " ".join(f"word{n}" for n in range(50))})[name]

    def rows() -> list[int | None]:
        with store.table._database.reading() as connection:
            tables = near_duplicates_metadata.sorted_tables
            return [connection.scalar(select(func.count()).select_from(table)) for table in tables]

    assert (assigned(store, "a"), assigned(store, "b")) == (None, "a")
    made = store.rebuilding(NS, MANIFEST)
    assert (assigned(made, "new"), assigned(store, "c"), assigned(made, "newer")) == (None, "a", "new")
    made.finish()
    assert assigned(store, "d") == "new"
    # One group of three documents, and its 16 bands.
    assert sorted(count or 0 for count in rows()) == [1, 1, 3, 16]
    store.drop(NS)
    assert rows() == [0, 0, 0, 0]


def test_documents_that_a_store_shows_are_not_looked_through_again(store: ClusteredStore) -> None:
    store.upsert(NS, [a_document("a"), a_document("b")])
    store.settle(NS)
    build = store.known(NS)
    with store.exclusive(NS), store.table._database.writing(NS) as connection:
        connection.execute(delete(state_table))
    assert store.table.behind(build, "texts") == {}
    store.upsert(NS, [a_document("c")])
    assert store.table.behind(build, "texts") == {}
    # Until somebody has compared them.
    with store.exclusive(NS):
        store.table.mark_behind(build, "texts", ["never"])
    assert store.table.behind(build, "texts").keys() == {"a", "b"}
    assert store.table.behind(build, "vectors") == {}


def test_what_a_crash_left_unwritten_is_not_hidden_by_the_batches_after_it(
    store: ClusteredStore, texts: EmbeddedStore
) -> None:
    store.upsert(NS, [a_document("a")])
    store.settle(NS)
    build = store.known(NS)
    with store.exclusive(NS):
        # As far as a process comes that is killed before it writes to a store.
        store.table.put(build, [a_document("lost"), a_document("too")])
    store.upsert(NS, [a_document("b")])
    assert store.table.behind(build, "texts").keys() == {"lost", "too"}
    with store.exclusive(NS):
        # One part of the batch was written, and then the process was killed again.
        texts.upsert(NS, [a_document("lost")])
        told = Told(store.table.changes(build, ["lost"]), {})
        store.table.record(build, {"texts": told}, stores=store.stores)
    assert store.table.behind(build, "texts").keys() == {"too"}
    assert store.settle(NS) == {}
    assert shown(texts).keys() == {"a", "b", "lost", "too"}


def test_a_document_of_before_that_a_store_refuses_now_is_looked_for_again(store: ClusteredStore) -> None:
    store.upsert(NS, [a_document("a"), a_document("b")])
    store.settle(NS)
    build = store.known(NS)
    with store.exclusive(NS):
        told = Told(store.table.changes(build, ["a"]), {"a": "too large"})
        store.table.record(build, {"texts": told}, stores=store.stores)
    assert store.table.behind(build, "texts") == {"a": "too large"}
