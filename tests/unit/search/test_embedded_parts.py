"""What the embedded store promises in addition to the contract of every store."""

from __future__ import annotations

import json
import math
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.documents import Document, Passage
from models.errors import (
    BadIndex,
    InvalidAnswer,
    StoreTimeout,
    StoreUnavailable,
    WriterBusy,
    WrongDeclaration,
)
from search.embedded import namespace_reader as reader
from search.embedded import passage_rows as rows
from search.embedded import writer
from search.embedded.connections import CORPUS_FORMAT
from search.embedded.growing_array import Growing
from search.embedded.lexical_index import LexicalIndex, create_index, write_index
from search.embedded.store import EmbeddedStore
from search.protocol import Search
from tests.contracts.store_documents import EAST, MANIFEST, NORTH, UP, document, questions, unit

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "a folder with % and ?"


@pytest.fixture
def store(folder: Path) -> Iterator[EmbeddedStore]:
    store = EmbeddedStore(folder)
    store.create("ns", MANIFEST)
    yield store
    store.close()


def names(store: EmbeddedStore, text: str, depth: int = 1_000) -> list[str]:
    return [
        hit.document_id for hit in store.search_text("ns", [text], Search(depth=depth, timeout_s=30))[0].hits
    ]


def near(store: EmbeddedStore, depth: int = 1_000) -> list[str]:
    (ranking,) = store.search_vectors("ns", questions(EAST), Search(depth=depth, timeout_s=30))
    return [hit.document_id for hit in ranking.hits]


def test_bm25_is_robertsons_with_k1_1_2_and_b_75(store: EmbeddedStore) -> None:
    store.upsert("ns", [document("a", "pear pear plum fig"), document("b", "pear"), document("c", "fig")])
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    average = (4 + 1 + 1) / 3
    a = idf * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 4 / average))
    b = idf * 1 * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 1 / average))
    (ranking,) = store.search_text("ns", ["pear"], Search(depth=5))
    assert {hit.document_id: hit.score for hit in ranking.hits} == pytest.approx({"a": a, "b": b}, abs=1e-4)
    assert ranking.total_matches == 2


def test_naming_allowed_passages_and_filtering_hits_give_the_same(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.upsert(
        "ns",
        [
            document(f"d{i:03}", "pear " * (1 + i % 7) + "plum " * (i % 11), metadata={"n": i % 4})
            for i in range(300)
        ],
    )
    named = store.search_text("ns", ["pear plum plum"], Search(depth=20, filters={"n": 2}))
    monkeypatch.setattr("search.embedded.lexical_index._SET_BELOW", 0)
    sifted = store.search_text("ns", ["pear plum plum"], Search(depth=20, filters={"n": 2}))
    assert named[0].hits == sifted[0].hits
    assert len(named[0].hits) == 20


def test_one_long_document_does_not_hide_the_others(store: EmbeddedStore) -> None:
    long = document("long", *["pear"] * 500)
    others = [document(f"d{i}", "pear and much else", vectors=(unit(1, 1, 0, 0),)) for i in range(3)]
    store.upsert("ns", [long, *others])
    assert set(names(store, "pear", depth=4)) == {"long", "d0", "d1", "d2"}
    assert set(near(store, depth=4)) == {"long", "d0", "d1", "d2"}


def test_vector_search_equals_sorting_every_cosine(store: EmbeddedStore) -> None:
    random = np.random.default_rng(7)
    store.drop("ns")
    store.create("ns", replace(MANIFEST, dimension=16))
    vectors = random.standard_normal((400, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    for first in range(0, 400, 150):
        batch = range(first, min(400, first + 150))
        store.upsert("ns", [document(f"d{i:03}", "x", vectors=(vectors[i],)) for i in batch])
    asked = vectors[:20]
    rankings = store.search_vectors("ns", asked, Search(depth=25))
    for question, ranking in zip(asked, rankings, strict=True):
        cosines = vectors.astype(np.float64) @ question.astype(np.float64)
        expected = np.argsort(-cosines, kind="stable")[:25].tolist()
        assert [int(hit.document_id[1:]) for hit in ranking.hits] == expected


def test_a_passage_without_a_vector_is_found_only_by_its_words(store: EmbeddedStore) -> None:
    store.upsert("ns", [Document("a", "docs", "", (Passage("a#0", 0, "pear"),)), document("b", "plum")])
    assert names(store, "pear") == ["a"]
    assert near(store) == ["b"]
    assert store.vectors("ns", ["a#0", "b#0"]).keys() == {"b#0"}


def test_a_document_without_passages_is_counted_and_not_found(store: EmbeddedStore) -> None:
    store.upsert("ns", [document("a"), document("b", "pear")])
    assert store.revisions("ns", "docs") == {"a": "1", "b": "1"}
    assert store.delete("ns", ["a"]) == 1
    assert names(store, "pear") == ["b"]


def test_the_last_of_two_equal_ids_in_a_batch_counts(store: EmbeddedStore) -> None:
    store.upsert("ns", [document("a", "pear"), document("a", "plum")])
    assert (names(store, "pear"), names(store, "plum")) == ([], ["a"])


def test_a_batch_with_an_invalid_document_is_refused_whole(store: EmbeddedStore) -> None:
    for wrong, said in (
        (document("b", "lone \ud800"), "cannot be encoded"),
        (document("b", "x", metadata={"set": {1}}), "cannot be stored"),
        (document("b", "x", vectors=(UP * 2,)), "length 2"),
        (Document("b", "docs", "", (Passage("a#0", 0, "x"), Passage("a#0", 1, "y"))), "twice"),
    ):
        with pytest.raises(InvalidAnswer, match=said):
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


def test_a_search_after_its_deadline_is_a_timeout(store: EmbeddedStore) -> None:
    store.upsert("ns", [document("a", "pear")])
    with pytest.raises(StoreTimeout):
        store.search_text("ns", ["pear"], Search(depth=1, timeout_s=-1))
    with pytest.raises(StoreTimeout):
        store.search_vectors("ns", questions(EAST), Search(depth=1, timeout_s=-1))
    with pytest.raises(StoreTimeout):
        store.texts("ns", ["a#0"], timeout_s=-1)


def test_a_second_writer_is_refused_and_another_namespace_is_not(store: EmbeddedStore, folder: Path) -> None:
    second = EmbeddedStore(folder, writer_wait_s=0)
    second.create("other", MANIFEST)
    with store.exclusive("ns"):
        store.upsert("ns", [document("a", "pear")])  # the holder may write
        writes: list[Callable[[], object]] = [
            lambda: second.upsert("ns", [document("b", "pear")]),
            lambda: second.delete("ns", ["a"]),
            lambda: second.drop("ns"),
            lambda: second.rebuild_lexical("ns"),
        ]
        for write in writes:
            with pytest.raises(WriterBusy, match="'ns'"):
                write()
        second.upsert("other", [document("b", "pear")])
        assert names(second, "pear") == ["a"]
    second.upsert("ns", [document("b", "pear")])
    assert names(store, "pear") == ["a", "b"]
    second.close()


def damage(folder: Path, how: str) -> None:
    (index,) = (folder / "lexical").iterdir()
    largest = max(index.glob("*.term"), key=lambda path: path.stat().st_size)
    if how == "folder gone":
        shutil.rmtree(index)
    elif how == "file gone":
        largest.unlink()
    elif how == "file cut":
        os.truncate(largest, largest.stat().st_size // 2)
    else:
        (index / "meta.json").write_text("{nonsense")


@pytest.mark.parametrize("how", ["folder gone", "file gone", "file cut", "meta nonsense"])
def test_a_damaged_lexical_index_is_reported_and_can_be_rebuilt(
    store: EmbeddedStore, folder: Path, how: str
) -> None:
    store.upsert("ns", [document("a", "pear"), document("b", "plum")])
    store.close()
    damage(folder, how)
    with pytest.raises(BadIndex, match=r"'ns' is missing or damaged .*chorale index --rebuild"):
        names(store, "pear")
    with pytest.raises(BadIndex):
        store.upsert("ns", [document("c", "pear")])
    assert near(store) == ["a", "b"]  # the other branch works
    generation = store.generation("ns")
    assert store.rebuild_lexical("ns") == generation + 1
    assert names(store, "pear") == ["a"]
    assert len(list((folder / "lexical").iterdir())) == 1


def test_a_lexical_commit_can_be_repeated_after_a_crash(tmp_path: Path) -> None:
    """A killed commit leaves files that no index knows, under names that the next commit uses."""
    index, whole = tmp_path / "ns.1.0", tmp_path / "ns.2.0"
    create_index(index)
    write_index(index, "en", delete=[], add=[(rid, "pear") for rid in range(5)])
    write_index(index, "en", delete=[0], add=[])
    shutil.copytree(index, whole)
    known = {path.name for path in index.iterdir()}
    write_index(whole, "en", delete=[1], add=[(9, "plum")])
    left = [path for path in whole.glob("*.del") if path.name not in known]
    assert len(left) == 1
    shutil.copy(left[0], index)
    managed = json.loads((index / ".managed.json").read_text())
    (index / ".managed.json").write_text(json.dumps([*managed, left[0].name]))
    write_index(index, "en", delete=[1], add=[(9, "plum")])
    searcher = LexicalIndex(index).reloaded()
    assert [rid for rid in range(10) if searcher.has(rid)] == [2, 3, 4, 9]


def test_a_damaged_database_is_reported(store: EmbeddedStore, folder: Path) -> None:
    store.upsert("ns", [document("a", "pear")])
    store.close()
    for side in ("corpus.db-wal", "corpus.db-shm"):
        (folder / side).unlink(missing_ok=True)
    (folder / "corpus.db").write_bytes(b"no database at all" * 1_000)
    with pytest.raises(BadIndex, match="damaged"):
        names(store, "pear")


def test_an_unusable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = EmbeddedStore(tmp_path / "file" / "corpus")
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        store.namespaces()


def test_a_newer_format_is_refused(store: EmbeddedStore, folder: Path) -> None:
    store.close()
    with sqlite3.connect(folder / "corpus.db") as connection:
        connection.execute(f"PRAGMA user_version = {CORPUS_FORMAT + 1}")
    connection.close()
    with pytest.raises(BadIndex, match=f"format {CORPUS_FORMAT + 1}.*newer program"):
        store.generation("ns")


def test_a_reader_sees_a_rebuilt_and_a_recreated_namespace(store: EmbeddedStore, folder: Path) -> None:
    other = EmbeddedStore(folder)
    store.upsert("ns", [document("a", "pear")])
    assert names(other, "pear") == ["a"]
    store.rebuild_lexical("ns")
    assert names(other, "pear") == ["a"]
    store.drop("ns")
    store.create("ns", replace(MANIFEST, language="none"))
    store.upsert("ns", [document("b", "pears"), document("c", "plum", vectors=(NORTH,))])
    assert (names(other, "pear"), names(other, "pears")) == ([], ["b"])
    assert near(other) == ["b", "c"]
    other.close()


def test_a_reader_far_behind_or_with_many_dead_rows_reloads(
    store: EmbeddedStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "_DEAD_ROWS", 2)
    monkeypatch.setattr(rows, "TOMBSTONE_BATCHES", 4)
    monkeypatch.setattr("search.embedded.writer.TOMBSTONE_BATCHES", 4)
    other = EmbeddedStore(folder)
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


def test_a_replaced_document_leaves_no_text_and_no_vector(store: EmbeddedStore, folder: Path) -> None:
    store.upsert("ns", [document("a", "private words")])
    store.upsert("ns", [document("a", "public")])
    with sqlite3.connect(folder / "corpus.db") as connection:
        kept = connection.execute("SELECT text, vector IS NULL FROM chorale_passage ORDER BY rid").fetchall()
    connection.close()
    assert kept == [("", 1), ("public", 0)]


def test_warming_for_text_loads_no_matrix(folder: Path, store: EmbeddedStore) -> None:
    store.upsert("ns", [document("a", "pear")])
    text_only = EmbeddedStore(folder, warm_vectors=False)
    text_only.warm()
    view = text_only._view("ns")
    assert view.searcher is not None
    assert view.vectors is None
    assert near(text_only) == ["a"]  # a vector search still loads it
    text_only.close()


def test_only_writing_imports_sqlalchemy(folder: Path, store: EmbeddedStore) -> None:
    store.upsert("ns", [document("a", "pear"), document("b", "plum")])
    program = f"""
import sys
from pathlib import Path
from search.embedded.store import EmbeddedStore
from search.protocol import Search
store = EmbeddedStore(Path({str(folder)!r}))
store.warm()
found = store.search_text("ns", ["pear"], Search(depth=3))[0].hits
print(len(store.texts("ns", [hit.passage_id for hit in found])), "sqlalchemy" in sys.modules)
store.delete("ns", ["none"])
print("sqlalchemy" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["1", "False", "True"]


def test_a_reader_between_the_two_commits_of_a_batch_waits_for_the_second(
    store: EmbeddedStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.upsert("ns", [document("a", "pear"), document("b", "pear")])
    late = EmbeddedStore(folder)
    found: list[list[str]] = []
    reading = threading.Thread(target=lambda: found.append(names(late, "pear")))
    looks: list[float] = []
    looked_twice = threading.Event()

    def look_again(pause_s: float) -> None:
        looks.append(pause_s)
        if len(looks) == 2:
            looked_twice.set()
        looked_twice.wait(pause_s)

    def show(*arguments: Any) -> None:
        reading.start()
        assert looked_twice.wait(30)
        really_show(*arguments)

    really_show = writer._show
    monkeypatch.setattr(reader, "_LOOKS", 100_000)
    monkeypatch.setattr("search.embedded.namespace_reader.time.sleep", look_again)
    monkeypatch.setattr(writer, "_show", show)
    store.upsert("ns", [document("a", "pear", "pear"), document("b", "pear")])
    reading.join(30)
    assert found == [["a", "a", "b"]]
    late.close()


def test_threads_may_search_while_another_writes(store: EmbeddedStore) -> None:
    store.upsert("ns", [document("a", "pear 0"), document("b", "pear 0")])
    problems: list[object] = []
    done = threading.Event()

    def search() -> None:
        try:
            while not done.is_set():
                if (found := sorted(names(store, "pear"))) != ["a", "b"]:
                    problems.append(found)
                if (found := sorted(near(store))) != ["a", "b"]:
                    problems.append(found)
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for n in range(12):
        store.upsert("ns", [document("a", f"pear {n}"), document("b", f"pear {n}")])
    done.set()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_view_of_a_growing_array_never_changes() -> None:
    growing = Growing(np.float32, width=2)
    views = []
    for n in range(200):
        growing.append(np.full((n % 3, 2), n, np.float32))
        views.append(growing.view)
    expected = [n for n in range(200) for _ in range(n % 3)]
    for n, view in enumerate(views):
        assert view[:, 0].tolist() == expected[: sum(i % 3 for i in range(n + 1))]
        assert view.flags.c_contiguous


def test_revisions_can_be_read_by_document_id(store: EmbeddedStore) -> None:
    store.upsert("ns", [document("a", "x", revision="r1"), document("b", "x", source="elsewhere")])
    store.upsert("ns", [document("a", "x", revision="r2"), document("gone", "x")])
    store.delete("ns", ["gone"])
    many = [f"never {n}" for n in range(500)]
    assert store.held("ns", ["a", "b", "gone", *many]).keys() == {"a", "b"}
    assert store.held("ns", [*many, "a", "b", "gone"], source="docs") == {"a": "r2"}
    assert store.held("ns", []) == {}
    with pytest.raises(BadIndex, match="no namespace 'other'"):
        store.held("other", ["a"])


def test_reading_the_generation_reads_no_document(store: EmbeddedStore) -> None:
    store.upsert("ns", [document("a", "x")])
    store.close()
    assert store.generation("ns") == 1
    assert store._readers == {}
