"""Damaged, unusable and newer files of the embedded store."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from models.errors import BadIndex, StoreUnavailable
from search.engines.embedded.lexical_index import LexicalIndex, create_index, write_index
from tests.contracts.store_documents import document
from tests.support.stores.embedded_searches import names, near
from tests.support.stores.one_engine import OneEngine, embedded_store


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
def test_a_damaged_lexical_index_is_reported_and_the_next_write_rebuilds_it(
    store: OneEngine, folder: Path, how: str
) -> None:
    store.upsert("ns", [document("a", "pear"), document("b", "plum")])
    store.close()
    damage(folder, how)
    with pytest.raises(BadIndex, match=r"'ns' is missing or damaged .*`chorale verify`"):
        names(store, "pear")
    assert near(store) == ["a", "b"]  # the other branch works
    generation = store.generation("ns")
    assert store.upsert("ns", [document("c", "pear")]) > generation
    assert names(store, "pear") == ["a", "c"]
    assert len(list((folder / "lexical").iterdir())) == 1


def test_a_lexical_commit_can_be_repeated_after_a_crash(tmp_path: Path) -> None:
    """A killed commit leaves files that no index knows, under names that the next commit uses."""
    index, whole = tmp_path / "ns.1.0", tmp_path / "ns.2.0"
    create_index(index)
    write_index(index, delete=[], add=[(rid, "pear") for rid in range(5)])
    write_index(index, delete=[0], add=[])
    shutil.copytree(index, whole)
    known = {path.name for path in index.iterdir()}
    write_index(whole, delete=[1], add=[(9, "plum")])
    leftovers = [path for path in whole.glob("*.del") if path.name not in known]
    assert len(leftovers) == 1
    shutil.copy(leftovers[0], index)
    managed = json.loads((index / ".managed.json").read_text())
    (index / ".managed.json").write_text(json.dumps([*managed, leftovers[0].name]))
    write_index(index, delete=[1], add=[(9, "plum")])
    searcher = LexicalIndex(index).reloaded()
    assert [rid for rid in range(10) if searcher.has(rid)] == [2, 3, 4, 9]


def test_a_damaged_database_is_reported(store: OneEngine, folder: Path) -> None:
    store.upsert("ns", [document("a", "pear")])
    store.close()
    for side in ("corpus.db-wal", "corpus.db-shm"):
        (folder / side).unlink(missing_ok=True)
    (folder / "corpus.db").write_bytes(b"no database at all" * 1_000)
    with pytest.raises(BadIndex, match="damaged"):
        names(store, "pear")


def test_a_folder_that_cannot_be_used_is_named(store: OneEngine, folder: Path) -> None:
    store.close()
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        embedded_store(folder / "corpus.db" / "corpus").namespaces()
