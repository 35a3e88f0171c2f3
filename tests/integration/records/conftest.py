"""A database of each kind with the newest schema, which all tests of records share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from models.tables.audit import AuditTable
from models.tables.installation import installation_metadata
from records.database import open_database, upgrade
from tests.support.servers.databases import empty_database


@pytest.fixture(scope="package", params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with empty_database(request.param, tmp_path_factory.mktemp("database")) as url:
        upgrade(url)
        yield url


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """The database without rows."""
    opened = open_database(database_url)
    with opened.begin() as connection:
        for metadata in (AuditTable.metadata, installation_metadata):
            for table in reversed(metadata.sorted_tables):
                connection.execute(table.delete())
    yield opened
    opened.dispose()
