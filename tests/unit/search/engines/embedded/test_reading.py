"""Readers of the embedded store beside writers."""

from __future__ import annotations

import shutil
import sqlite3
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from search.documents.document_table import DocumentTable
from search.engines.embedded import namespace_reader as reader
from search.engines.embedded import passage_rows as rows
from search.engines.embedded.passage_rows import Growing
from search.protocol import Search
from tests.contracts.store_documents import EAST, MANIFEST, NORTH, document, questions
from tests.support.stores.embedded_searches import names, near
from tests.support.stores.one_engine import OneEngine, embedded_store


def test_a_reader_sees_a_rebuilt_and_a_recreated_namespace(store: OneEngine, folder: Path) -> None:
    other = embedded_store(folder)
    store.upsert("ns", [document("a", "pear")])
    assert names(other, "pear") == ["a"]
    store.rebuild("ns", MANIFEST, [document("a", "fig")])
    assert (names(other, "pear"), names(other, "fig")) == ([], ["a"])
    store.drop("ns")
    store.create("ns", replace(MANIFEST, language="none"))
    store.upsert("ns", [document("b", "pears"), document("c", "plum", vectors=(NORTH,))])
    assert (names(other, "pear"), names(other, "pears")) == ([], ["b"])
    assert near(other) == ["b", "c"]
    other.close()


def test_a_reader_keeps_nothing_of_a_corpus_in_whose_place_another_one_is(
    store: OneEngine, folder: Path
) -> None:
    store.upsert("ns", [document("a", "pear")])
    assert near(store) == ["a"]
    shutil.rmtree(folder)
    other = embedded_store(folder)
    other.create("ns", MANIFEST)
    # Its second batch is newer than what the reader has read.
    other.upsert("ns", [document("b", "pear")])
    other.upsert("ns", [document("c", "pear")])
    assert (near(store), names(store, "pear")) == (["b", "c"], ["b", "c"])
    other.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the files that a process has mapped")
def test_a_reader_keeps_no_file_of_the_namespaces_that_were_dropped(store: OneEngine, folder: Path) -> None:
    other = embedded_store(folder)
    mapped = []
    for number in range(3):
        store.create(f"n{number}", MANIFEST)
        store.upsert(f"n{number}", [document("a", "pear")])
        assert other.search_text(f"n{number}", ["pear"], Search(5, timeout_s=30))[0].hits
        mapped.append(Path("/proc/self/maps").read_text().count(str(folder / "lexical")))
        store.drop(f"n{number}")
    assert mapped[0] == mapped[2] > 0
    other.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the files that a process has mapped")
def test_a_reader_keeps_the_files_of_the_namespaces_that_were_searched_last(
    store: OneEngine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("search.engines.embedded.store.MOST_OPEN", 2)
    for name in ("n0", "n1", "n2", "n3"):
        store.create(name, MANIFEST)
        store.upsert(name, [document(name, "pear")])
    other = embedded_store(folder)
    open_ones = []
    for name in ("n0", "n1", "n0", "n2", "n3", "n0"):
        (ranking,) = other.search_text(name, ["pear"], Search(5, timeout_s=30))
        assert [hit.document_id for hit in ranking.hits] == [name]
        maps = Path("/proc/self/maps").read_text()
        open_ones.append([one for one in ("n0", "n1", "n2", "n3") if f"{folder}/lexical/{one}." in maps])
    assert open_ones == [["n0"], ["n0", "n1"], ["n0", "n1"], ["n0", "n2"], ["n2", "n3"], ["n0", "n3"]]
    other.close()


def test_a_reader_far_behind_or_with_many_dead_rows_reloads(
    store: OneEngine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "_DEAD_ROWS", 2)
    monkeypatch.setattr("search.documents.lookups.TOMBSTONE_BATCHES", 4)
    other = embedded_store(folder)
    for batch in (1, 3, 9):
        for _ in range(batch):
            store.upsert("ns", [document("a", "pear", "pear"), document("b", "pear", vectors=(NORTH,))])
        store.upsert("ns", [document("c", f"word{batch}")])
        assert sorted(names(other, "pear")) == ["a", "a", "b"]
        assert names(other, f"word{batch}") == ["c"]
        assert sorted(near(other)) == ["a", "a", "b", "c"]
    with sqlite3.connect(folder / "corpus.db") as connection:
        (remembered,) = connection.execute("SELECT count(*) FROM chorale_passage WHERE ended > 0").fetchone()
    connection.close()
    assert remembered == 3 + 3 + 3 + 1  # what the last four of sixteen batches replaced
    other.close()


def test_a_reader_between_the_two_commits_of_a_batch_waits_for_the_second(
    store: OneEngine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.upsert("ns", [document("a", "pear"), document("b", "pear")])
    late = embedded_store(folder)
    pauses: list[float] = []
    paused_twice = threading.Event()

    def pause(pause_s: float) -> None:
        pauses.append(pause_s)
        if len(pauses) == 2:
            paused_twice.set()
        paused_twice.wait(pause_s)

    def record(*arguments: Any, **options: Any) -> int:
        reading.append(threads.submit(names, late, "pear"))
        assert paused_twice.wait(30)
        return really_record(*arguments, **options)

    really_record, reading = DocumentTable.record, list[Future[list[str]]]()
    monkeypatch.setattr(reader, "_ATTEMPTS", 100_000)
    monkeypatch.setattr("search.engines.embedded.namespace_reader.time.sleep", pause)
    monkeypatch.setattr(DocumentTable, "record", record)
    with ThreadPoolExecutor(1) as threads:
        store.upsert("ns", [document("a", "pear", "pear"), document("b", "pear")])
    assert [search.result() for search in reading] == [["a", "a", "b"]]
    late.close()


def test_a_view_of_a_growing_array_never_changes() -> None:
    growing = Growing(np.float32)
    views = []
    for n in range(200):
        growing.append(np.full(n % 3, n, np.float32))
        views.append(growing.view)
    expected = [n for n in range(200) for _ in range(n % 3)]
    for n, view in enumerate(views):
        assert view.tolist() == expected[: sum(i % 3 for i in range(n + 1))]
        assert view.flags.c_contiguous


def test_a_search_with_the_generation_just_read_shows_at_least_that_generation(
    store: OneEngine, folder: Path
) -> None:
    def ids_at(generation: int) -> list[list[str]]:
        search = Search(10, generation=generation)
        by_text = other.search_text("ns", ["pear"], search)
        by_vector = other.search_vectors("ns", questions(EAST), search)
        return [sorted(hit.document_id for hit in ranking.hits) for ranking in (*by_text, *by_vector)]

    other = embedded_store(folder)
    for batch in range(1, 5):
        store.upsert("ns", [document(f"d{batch}", "pear")])
        expected = [f"d{n}" for n in range(1, batch + 1)]
        assert ids_at(other.generation("ns")) == [expected, expected]
        assert ids_at(1) == [expected, expected]  # a generation that is not loaded any more
    store.delete("ns", ["d1"])
    assert ids_at(other.generation("ns")) == [expected[1:], expected[1:]]
    store.drop("ns")
    store.create("ns", MANIFEST)
    store.upsert("ns", [document("e", "pear")])
    assert ids_at(other.generation("ns")) == [["e"], ["e"]]
    other.close()
