from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers.postgresql_server import PostgresqlServer


@pytest.fixture(scope="package")
def server() -> Iterator[PostgresqlServer]:
    """One server for all tests that do not harm it."""
    with PostgresqlServer() as server:
        yield server
