"""Two stores that are written as one, with the table of documents in each kind of database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from search.embedded.store import EmbeddedStore
from search.several_stores import store_writer as writes
from search.several_stores.store import ClusteredStore
from tests.support.servers.databases import empty_database
from tests.support.stores.failing_store import FailingStore
from tests.support.stores.several_stores import MANIFEST, NS, opened


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


@pytest.fixture
def store(url: str, texts: EmbeddedStore, vectors: FailingStore) -> Iterator[ClusteredStore]:
    store = opened(url, texts, vectors)
    store.create(NS, MANIFEST)
    yield store
    store.close()
