"""An audit database of each kind, without rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from models.audit_tables import AuditTable
from records.database import open_database, upgrade
from tests.support.servers.databases import empty_database


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def audit_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a database with the newest schema; `engine` removes the rows of earlier tests."""
    with empty_database(request.param, tmp_path_factory.mktemp("audit")) as address:
        upgrade(address)
        yield address


@pytest.fixture
def engine(audit_url: str) -> Iterator[Engine]:
    opened = open_database(audit_url)
    with opened.begin() as connection:
        for table in reversed(AuditTable.metadata.sorted_tables):
            connection.execute(table.delete())
    yield opened
    opened.dispose()
