"""Vectors in files that processes share, and rankings by products of codes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from filelock import FileLock
from numpy.typing import NDArray

from inference.embedders import OnnxEmbedder
from models.documents import Matrix, Passage
from search.engines.embedded import vector_segments, vector_table
from search.engines.embedded.vector_segments import Questions, SegmentFiles
from search.protocol import Search
from tests.contracts.embedder import MODEL
from tests.contracts.store_documents import EAST, MANIFEST, NORTH, document, questions
from tests.support.stores.embedded_searches import near
from tests.support.stores.one_engine import OneEngine, embedded_store

SIZE = 64


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_segments, "SIZE", SIZE)


def unit(vectors: NDArray[Any]) -> Matrix:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def at_random(dimension: int) -> Matrix:
    return unit(np.random.default_rng(3).standard_normal((300, dimension)))


def ten_topics(dimension: int) -> Matrix:
    """Ten topics, and two numbers of each vector much larger than all others, as some models have them."""
    random = np.random.default_rng(4)
    vectors = random.standard_normal((10, dimension))[np.arange(300) % 10]
    vectors += 0.3 * random.standard_normal((300, dimension))
    vectors[:, [5, dimension // 2]] *= 30
    return unit(vectors)


def near_duplicates() -> Matrix:
    """150 passages that are equal, and 150 that differ from them by less than the error of their codes."""
    random = np.random.default_rng(5)
    vectors = np.repeat(random.standard_normal((1, 384)), 300, axis=0)
    vectors[150:] += 0.002 * random.standard_normal((150, 384))
    return unit(vectors)


def minilm_vectors() -> Matrix:
    things = ["pears", "plums", "trains", "a late train to Rome", "the moon", "old books", "a red bicycle"]
    does = ["are sold here", "cost more than last year", "was never seen again", "is what she likes best"]
    when = [
        "",
        " on Mondays",
        " in winter",
        " since 1994",
        " every night",
        " before breakfast",
        " by the sea",
    ]
    texts = [f"{thing} {doing}{time}." for thing in things for doing in does for time in when]
    return OnnxEmbedder(MODEL, threads=1).embed_passages(texts)


KINDS: dict[str, Callable[[], Matrix]] = {
    "MiniLM": minilm_vectors,
    "768 at random": lambda: at_random(768),
    "768 of topics": lambda: ten_topics(768),
    "near-duplicates": near_duplicates,
}


@pytest.mark.parametrize("kind", [pytest.param("MiniLM", marks=pytest.mark.slow), *list(KINDS)[1:]])
def test_a_ranking_by_codes_is_the_one_of_all_cosines(folder: Path, store: OneEngine, kind: str) -> None:
    vectors = KINDS[kind]()
    store.drop("ns")
    store.create("ns", replace(MANIFEST, dimension=vectors.shape[1]))
    store.upsert(
        "ns",
        [
            document(f"d{i:03}", "x", vectors=(vector,), metadata={"n": i % 2})
            for i, vector in enumerate(vectors)
        ],
    )
    random = np.random.default_rng(6)
    questions = unit(vectors[::20] + random.standard_normal(vectors[::20].shape) / vectors.shape[1])
    for filters, rows in (({}, range(len(vectors))), ({"n": 1}, range(1, len(vectors), 2))):
        rankings = store.search_vectors("ns", questions, Search(depth=20, filters=filters, timeout_s=30))
        for question, ranking in zip(questions, rankings, strict=True):
            scores = {i: round(float((vectors[i] * question).sum(dtype=np.float64)), 6) + 0.0 for i in rows}
            expected = sorted(scores, key=lambda i: (-scores[i], i))[:20]
            assert [(hit.document_id, hit.score) for hit in ranking.hits] == [
                (f"d{i:03}", scores[i]) for i in expected
            ]
    assert len(list((folder / "lexical").glob("*/vectors/*.npy"))) == len(vectors) // SIZE


def extremes() -> Matrix:
    """Every code is the largest or the smallest that there is."""
    signs = np.sign(np.random.default_rng(7).standard_normal((SIZE, 256)))
    signs[0], signs[1] = 1, -1
    return unit(signs)


@pytest.mark.parametrize("vectors", [at_random(256)[:SIZE], ten_topics(256)[:SIZE], extremes()])
def test_no_product_of_codes_is_wrong_by_more_than_its_bound(tmp_path: Path, vectors: Matrix) -> None:
    files = SegmentFiles(tmp_path, 256)
    files.write(0, 0, np.arange(1, SIZE + 1), vectors)
    segment = files.open(0, 0)
    assert segment is not None
    assert segment.codes is not None
    lost = vectors - segment.codes.matrix.T * segment.codes.steps[:, None]
    # The worst questions point where the codes lose most.
    questions = np.concatenate([vectors, unit(lost + 1e-9), 3 * at_random(256), np.zeros((1, 256))]).astype(
        np.float32
    )
    scores, bounds = segment.products(Questions(questions), np.arange(SIZE))
    errors = np.abs(scores - questions.astype(np.float64) @ vectors.T.astype(np.float64)).max(axis=1)
    assert (errors <= bounds).all()
    assert (errors > bounds / 100).any()


def test_what_is_added_replaced_and_deleted_between_two_questions_is_found_or_is_not(
    store: OneEngine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_segments, "SIZE", 8)
    random = np.random.default_rng(8)
    others = [embedded_store(folder), embedded_store(folder)]
    stored: dict[str, Matrix] = {}
    for step in range(8):
        written = {f"d{n}": unit(random.standard_normal((2, 4))) for n in random.integers(0, 60, 20)}
        gone = [name for name in stored if random.random() < 0.2 and name not in written]
        store.upsert("ns", [document(name, "x", "y", vectors=tuple(rows)) for name, rows in written.items()])
        store.delete("ns", gone)
        stored = {name: rows for name, rows in (stored | written).items() if name not in gone}
        reading = embedded_store(folder) if step % 4 == 3 else others[step % 2]
        question = unit(random.standard_normal((1, 4)))
        (ranking,) = reading.search_vectors("ns", question, Search(depth=1_000, timeout_s=30))
        expected = {f"{name}#{i}": rows[i] @ question[0] for name, rows in stored.items() for i in (0, 1)}
        assert {hit.passage_id: hit.score for hit in ranking.hits} == pytest.approx(expected, abs=2e-6)
        assert [hit.score for hit in ranking.hits] == sorted(
            (hit.score for hit in ranking.hits), reverse=True
        )
    assert list((folder / "lexical").glob("*/vectors/*.npy"))
    for other in (*others, reading):
        other.close()


def filled(store: OneEngine, count: int) -> list[str]:
    """The ids of `count` documents that are written; odd ones lie north."""
    names = [f"d{n:03}" for n in range(count)]
    store.upsert(
        "ns",
        [document(name, "x", vectors=((EAST, NORTH)[n % 2],)) for n, name in enumerate(names)],
    )
    return names


def segments(folder: Path) -> list[Path]:
    return sorted((folder / "lexical").glob("*/vectors/*.npy"))


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def of_another_dimension(file: Path) -> None:
    SegmentFiles(file.parent, 3).write(0, 0, np.arange(SIZE), np.ones((SIZE, 3), np.float32))


def after_others(file: Path) -> None:
    SegmentFiles(file.parent, 4).write(0, 5, np.arange(SIZE), np.ones((SIZE, 4), np.float32))


def of_the_dead(file: Path) -> None:
    SegmentFiles(file.parent, 4).write(0, 0, 10**6 + np.arange(SIZE), np.ones((SIZE, 4), np.float32))


def empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize("spoil", [cut, empty, of_another_dimension, after_others, of_the_dead])
def test_a_file_that_is_cut_or_stale_is_never_read_and_is_written_anew(
    store: OneEngine, folder: Path, spoil: Callable[[Path], None]
) -> None:
    names = filled(store, 2 * SIZE + 5)
    assert sorted(near(store)) == names
    whole = [file.read_bytes() for file in segments(folder)]
    assert len(whole) == 2
    store.close()
    spoil(segments(folder)[0])
    assert near(store) == names[::2] + names[1::2]
    assert [file.read_bytes() for file in segments(folder)] == whole


def test_without_room_for_a_file_a_process_holds_its_vectors_itself(
    store: OneEngine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    names = filled(store, SIZE)
    monkeypatch.setattr(os, "fsync", full)
    assert sorted(near(store)) == names
    store.upsert("ns", [document("later", "x")])
    assert sorted(near(store)) == [*names, "later"]
    (vectors,) = (folder / "lexical").glob("*/vectors")
    assert [file.name for file in vectors.iterdir()] == ["lock"]


def test_a_search_waits_for_no_writer_of_a_file_until_its_deadline(
    store: OneEngine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = filled(store, SIZE)
    (index,) = (folder / "lexical").iterdir()
    (index / "vectors").mkdir()
    monkeypatch.setattr(vector_table, "_RETRY_S", 0.0)
    with FileLock(index / "vectors" / "lock"):
        (ranking,) = store.search_vectors("ns", questions(EAST), Search(depth=SIZE, timeout_s=8))
    assert sorted(hit.document_id for hit in ranking.hits) == names
    assert segments(folder) == []
    # The next search shares the vectors, although no document has changed.
    assert sorted(near(store)) == names
    assert len(segments(folder)) == 1


def test_fewer_vectors_than_a_segment_has_need_no_file(store: OneEngine, folder: Path) -> None:
    names = filled(store, SIZE - 1)
    store.upsert("ns", [replace(document("wordy", "x"), passages=(Passage("wordy#0", 0, "x"),))])
    assert sorted(near(store)) == names
    assert segments(folder) == []


def test_a_process_that_comes_later_maps_the_files_that_are_there(store: OneEngine, folder: Path) -> None:
    filled(store, 2 * SIZE)
    near(store)
    before = [(file.stat().st_ino, file.stat().st_mtime_ns) for file in segments(folder)]
    other = embedded_store(folder)
    assert near(other) == near(store)
    assert [(file.stat().st_ino, file.stat().st_mtime_ns) for file in segments(folder)] == before
    *shared, own = other.engine._view("ns", vectors=True).vectors
    assert (len(shared), len(own.rows)) == (2, 0)
    other.close()


def test_a_process_that_waits_in_vain_maps_what_the_other_has_written_meanwhile(
    store: OneEngine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(store, 2 * SIZE)
    other, writing = embedded_store(folder), SegmentFiles.writing

    def timed_out(files: SegmentFiles) -> NoReturn:
        with monkeypatch.context() as patch:
            patch.setattr(SegmentFiles, "writing", writing)
            near(other)
        raise TimeoutError

    monkeypatch.setattr(SegmentFiles, "writing", timed_out)
    assert near(store) == near(other)
    *shared, own = store.engine._view("ns", vectors=True).vectors
    assert (len(shared), len(own.rows)) == (2, 0)
    other.close()


def test_segments_of_mostly_dead_passages_are_written_anew_by_a_process_that_starts(
    store: OneEngine, folder: Path
) -> None:
    names = filled(store, 4 * SIZE)
    assert len(near(store)) == len(names)
    store.delete("ns", names[: 3 * SIZE - 5])
    other = embedded_store(folder)
    assert sorted(near(other)) == sorted(near(store)) == names[3 * SIZE - 5 :]
    (file,) = segments(folder)
    vectors = other.vectors("ns", [f"{name}#0" for name in names[3 * SIZE - 5 :][:SIZE]])
    assert np.load(file)["vectors"].tolist() == [vector.tolist() for vector in vectors.values()]
    other.close()


def test_the_files_of_a_dropped_and_of_a_rebuilt_namespace_are_deleted(
    store: OneEngine, folder: Path
) -> None:
    filled(store, SIZE)
    near(store)
    (first,) = segments(folder)
    store.rebuild("ns", MANIFEST, [document(f"e{n}", "x") for n in range(SIZE)])
    assert len(near(store)) == SIZE
    (second,) = segments(folder)
    assert (first.exists(), second.parent != first.parent) == (False, True)
    store.drop("ns")
    assert segments(folder) == []
