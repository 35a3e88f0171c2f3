"""An audit database of each kind, without rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from models.audit_tables import AuditTable
from records.database import open_database


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    opened = open_database(database_url)
    with opened.begin() as connection:
        for table in reversed(AuditTable.metadata.sorted_tables):
            connection.execute(table.delete())
    yield opened
    opened.dispose()
