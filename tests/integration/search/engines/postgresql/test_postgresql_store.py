"""The PostgreSQL store keeps every promise of a store, on a real server that has the documents too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pytest

from search.documents.reading import DocumentReader
from search.engines.postgresql.store import PostgresqlStore
from tests.contracts.store import StoreContract
from tests.contracts.store_filters import DrawnFiltersContract
from tests.contracts.store_rebuilding import RebuildingContract
from tests.support.servers.postgresql_server import PostgresqlServer, opened
from tests.support.stores.one_engine import OneEngine, with_documents


@pytest.fixture(scope="class")
def kept(request: pytest.FixtureRequest, server: PostgresqlServer) -> Iterator[OneEngine]:
    """One store for all tests of a class."""
    with opened(server.url(), **request.cls.options) as engine, with_documents(engine, server.url()) as store:
        yield store


class Emptied:
    options: ClassVar[Mapping[str, Any]] = {}

    @pytest.fixture
    def store(self, kept: OneEngine) -> Iterator[OneEngine]:
        yield kept
        for state in kept.namespaces():
            kept.drop(state.name)


class TestPostgresqlStore(Emptied, StoreContract, RebuildingContract, DrawnFiltersContract):
    @pytest.fixture
    def reader(self, kept: OneEngine, server: PostgresqlServer) -> Iterator[PostgresqlStore]:
        with opened(server.url()) as reader:
            reader.reader = DocumentReader(kept.documents, "local")
            yield reader
