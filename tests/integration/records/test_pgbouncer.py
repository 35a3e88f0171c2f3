"""The audit database may be behind pgbouncer in transaction mode; the documents' database, which may not, names it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, literal, select
from sqlalchemy.exc import OperationalError

from models.retries import retried
from records.database import open_database
from search.documents.database import Database, DatabaseUnavailable
from tests.support.servers.pgbouncer import pgbouncer
from tests.support.servers.postgresql_server import PostgresqlServer

TIMES = 60
ONE = select(literal(1))
"""The driver would prepare a statement that a connection has executed five times."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """An empty database behind pgbouncer."""
    with PostgresqlServer() as server, server.database() as name, pgbouncer(server) as port:
        engine = open_database(server.url(name, port=port))
        retried(lambda: ask(engine), OperationalError, pause_s=lambda _: 0.05, for_s=30)
        engine.dispose()
        yield server.url(name, port=port)


def ask(engine: Engine) -> int:
    with engine.begin() as connection:
        return int(connection.scalar(ONE) or 0)


def test_the_audit_database_may_give_each_transaction_another_connection(url: str) -> None:
    engine = open_database(url, pool_size=8)
    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(lambda _: ask(engine), range(8 * TIMES))) == 8 * TIMES
    engine.dispose()


def test_the_documents_database_says_that_it_needs_an_address_without_pgbouncer(url: str) -> None:
    database = Database(url)

    def write(n: int) -> None:
        with database.writing(f"n{n % 8}") as connection:
            connection.scalar(ONE)

    expected = "prepared statement .*; give CHORALE_DOCUMENTS_URL an address without pgbouncer, or pgbouncer's session mode"
    with ThreadPoolExecutor(8) as threads, pytest.raises(DatabaseUnavailable, match=expected):
        list(threads.map(write, range(8 * TIMES)))
    database.close()
