"""A fresh audit database of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from audit.database import open_database
from audit.schema import upgrade
from tests.support.servers.databases import empty_database


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a database without any table."""
    with empty_database(request.param, tmp_path) as address:
        yield address


@pytest.fixture
def audit_url(empty_url: str) -> str:
    """The address of a database with the newest schema and no row."""
    upgrade(empty_url)
    return empty_url


@pytest.fixture
def engine(audit_url: str) -> Iterator[Engine]:
    opened = open_database(audit_url)
    yield opened
    opened.dispose()
