"""Several processes on the segments of one namespace."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.contracts.store_documents import MANIFEST, document
from tests.support.stores.one_engine import OneEngine, embedded_store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux", reason="only Linux lists the files that a process has mapped"
    ),
]

ROOT = Path(__file__).parents[5]
SIZE = 500


@contextmanager
def reader(folder: Path, *dies: str) -> Iterator[subprocess.Popen[str]]:
    module = "tests.integration.search.engines.embedded.vector_reader"
    command = [sys.executable, "-m", module, str(folder), str(SIZE), *dies]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ask(*processes: subprocess.Popen[str]) -> list[tuple[list[str], list[int]]]:
    """The hits of each process, which search at the same time, and the inodes of the files that it has mapped."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    answers = []
    for process in processes:
        assert process.stdout is not None
        ids, mapped = json.loads(process.stdout.readline())
        answers.append((ids, mapped))
    return answers


def inodes(folder: Path) -> list[int]:
    return sorted(file.stat().st_ino for file in (folder / "lexical").glob("*/vectors/*.npy"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[OneEngine]:
    store = embedded_store(tmp_path)
    store.create("ns", MANIFEST)
    yield store
    store.close()


def write(store: OneEngine, first: int, end: int) -> list[str]:
    """The ids of the first thousand documents, in the order of a ranking in which all are equal."""
    store.upsert("ns", [document(f"d{n:04}", "x") for n in range(first, end)])
    return [f"d{n:04}" for n in range(end)][:1_000]


def test_processes_that_start_together_map_the_same_files(store: OneEngine, tmp_path: Path) -> None:
    expected = write(store, 0, 3 * SIZE + 10)
    with reader(tmp_path) as one, reader(tmp_path) as two:
        answers = ask(one, two)
        assert answers == [(expected, inodes(tmp_path))] * 2
        assert len(inodes(tmp_path)) == 3
        write(store, 3 * SIZE + 10, 5 * SIZE)
        store.delete("ns", ["d0000"])
        answers = ask(one, two)
    expected = [f"d{n:04}" for n in range(1, 1_001)]
    assert answers == [(expected, inodes(tmp_path))] * 2
    assert len(inodes(tmp_path)) == 5


def test_a_killed_process_leaves_no_half_segment_and_holds_up_nobody(
    store: OneEngine, tmp_path: Path
) -> None:
    expected = write(store, 0, SIZE)
    with reader(tmp_path, "dies") as killed, reader(tmp_path) as other:
        assert killed.stdin is not None
        killed.stdin.write("\n")
        killed.stdin.flush()
        assert killed.wait(60) == -signal.SIGKILL
        assert inodes(tmp_path) == []
        assert ask(other) == [(expected, inodes(tmp_path))]
    assert len(inodes(tmp_path)) == 1
