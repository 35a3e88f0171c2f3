"""Two stores that are written as one, with the table of documents in each kind of database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from models.tables.documents import documents_metadata, near_duplicates_metadata
from search.documents import engine_writer as writes
from search.documents.store import DocumentStore
from search.engines.embedded.store import EmbeddedStore
from tests.support.servers.database_process import BRING_UP
from tests.support.servers.databases import empty_database
from tests.support.stores.failing_store import FailingStore
from tests.support.stores.several_stores import MANIFEST, NS, opened


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test runs on both kinds of database, unless its module has others in `DATABASES`, or the test names its own."""
    own = [mark for mark in metafunc.definition.iter_markers("parametrize") if mark.args[0] == "shared_url"]
    if "shared_url" in metafunc.fixturenames and not own:
        kinds = getattr(metafunc.module, "DATABASES", ("sqlite", "postgresql"))
        metafunc.parametrize("shared_url", kinds, indirect=True, scope="module")


@pytest.fixture(scope="module")
def shared_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with empty_database(request.param, tmp_path_factory.mktemp("documents")) as url:
        BRING_UP["documents"](url)
        yield url


@pytest.fixture
def url(shared_url: str) -> str:
    """The address of a database with the newest schema and no row."""
    engine = create_engine(shared_url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        for metadata in (documents_metadata, near_duplicates_metadata):
            for table in reversed(metadata.sorted_tables):
                connection.execute(table.delete())
    engine.dispose()
    return shared_url


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
def store(url: str, texts: EmbeddedStore, vectors: FailingStore) -> Iterator[DocumentStore]:
    store = opened(url, texts=texts, vectors=vectors)
    store.create(NS, MANIFEST)
    yield store
    store.close()
