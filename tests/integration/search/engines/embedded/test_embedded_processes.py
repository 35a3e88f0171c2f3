"""Several processes on one folder: readers beside a writer, and writers killed at any point."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from search.protocol import Search
from tests.contracts.store_documents import EAST, MANIFEST, document, questions
from tests.integration.search.engines.embedded.embedded_writer import POINTS
from tests.support.stores.one_engine import OneEngine, embedded_store

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[5]


@contextmanager
def writing(folder: Path, first: int, *dies: str) -> Iterator[subprocess.Popen[str]]:
    module = "tests.integration.search.engines.embedded.embedded_writer"
    command = [sys.executable, "-m", module, str(folder), str(first), *dies]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def acknowledged(process: subprocess.Popen[str]) -> int:
    """The number of the next batch that the writer acknowledges."""
    assert process.stdout is not None
    return int(process.stdout.readline())


def last_batch(store: OneEngine, *, is_still: bool = True) -> int:
    """The batch that the words show; asserts that they show it and every earlier batch whole.

    `is_still`: nobody writes, so the vectors show the same batch.
    """
    (words,) = store.search_text("ns", ["always"], Search(depth=1_000, timeout_s=30))
    ids = {hit.passage_id for hit in words.hits}
    batch = max(int(name[4:-2]) for name in ids if name.startswith("new-"))
    assert ids == {"shared#0", "shared#1", *(f"new-{n}#0" for n in range(batch + 1))}
    (near,) = store.search_vectors("ns", questions(EAST), Search(depth=1_000, timeout_s=30))
    assert {hit.passage_id for hit in near.hits} >= ids
    if is_still:
        assert len(near.hits) == len(ids)
        (named,) = store.search_text("ns", [f"batch{batch}"], Search(depth=10, timeout_s=30))
        assert [hit.passage_id for hit in named.hits] == ["shared#0"]
        assert store.texts("ns", ["shared#0"], timeout_s=30)["shared#0"].text == f"batch{batch} always"
    return batch


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Contains batch 0."""
    store = embedded_store(tmp_path)
    store.create("ns", MANIFEST)
    store.upsert("ns", [document("shared", "batch0 always", "always"), document("new-0", "new0 always")])
    store.close()
    return tmp_path


@pytest.mark.parametrize("point", POINTS)
def test_a_writer_killed_anywhere_leaves_a_whole_batch_or_none(folder: Path, point: str) -> None:
    store, fresh = embedded_store(folder), embedded_store(folder)
    assert last_batch(store) == 0
    with writing(folder, 1, point) as process:
        assert process.wait(60) == -signal.SIGKILL
    committed = POINTS.keys() - {"before anything", "in the first transaction"}
    assert last_batch(fresh) == last_batch(store) == (1 if point in committed else 0)
    assert store.generation("ns") == (2 if point in committed else 1)
    # The next writer continues from there.
    store.upsert("ns", [document("shared", "batch2 always", "always"), document("new-2", "new2 always")])
    store.upsert("ns", [document("new-1", "new1 always")])
    assert last_batch(fresh) == last_batch(store) == 2
    store.close()
    fresh.close()


def test_nothing_acknowledged_is_lost_by_killing_a_busy_writer(folder: Path) -> None:
    random = Random(20)
    store = embedded_store(folder)
    done = 0
    for _ in range(3):
        with writing(folder, done + 1) as process:
            done = acknowledged(process)
            time.sleep(random.uniform(0, 0.15))
            os.kill(process.pid, signal.SIGKILL)
            assert process.stdout is not None
            done = max([done, *map(int, process.stdout.read().split())])
        batch = last_batch(store)
        assert batch in (done, done + 1)  # the last batch may be committed without an acknowledgement
        done = batch
    store.close()


def test_readers_beside_a_writer_see_whole_batches_in_order(folder: Path) -> None:
    stores = [embedded_store(folder) for _ in range(2)]
    seen: list[list[int]] = [[], []]
    with writing(folder, 1) as process:
        acknowledged_batch = 0
        while acknowledged_batch < 12:
            acknowledged_batch = acknowledged(process)
            for store, batches in zip(stores, seen, strict=True):
                generation = store.generation("ns")
                batches.append(last_batch(store, is_still=False))
                assert batches[-1] + 1 >= generation
                assert batches[-1] >= acknowledged_batch
    for store, batches in zip(stores, seen, strict=True):
        assert batches == sorted(batches)
        store.close()
