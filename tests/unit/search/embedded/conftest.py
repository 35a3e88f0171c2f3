"""An embedded store with an empty namespace `ns`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from search.embedded.store import EmbeddedStore
from tests.contracts.store_documents import MANIFEST


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "a folder with % and ?"


@pytest.fixture
def store(folder: Path) -> Iterator[EmbeddedStore]:
    store = EmbeddedStore(folder)
    store.create("ns", MANIFEST)
    yield store
    store.close()
