"""An embedded store with an empty namespace `ns`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.store_documents import MANIFEST
from tests.support.stores.one_engine import OneEngine, embedded_store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "a folder with % and ?"


@pytest.fixture
def store(folder: Path) -> Iterator[OneEngine]:
    store = embedded_store(folder)
    store.create("ns", MANIFEST)
    yield store
    store.close()
