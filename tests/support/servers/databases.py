"""Databases for single tests: SQLite in a file, or a new database on the PostgreSQL that the tests share."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, create_engine, make_url
from sqlalchemy.exc import ProgrammingError

from tests.support.servers.services import offered


@contextmanager
def empty_database(kind: str, folder: Path) -> Iterator[str]:
    """Yields the address of a database of `kind` (sqlite, postgresql) without tables."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/tests.db"
        return
    server = make_url(
        offered("postgresql", "set CHORALE_TEST_POSTGRESQL_URL to a role that may create databases")
    )
    name = f"chorale_tests_{uuid.uuid4().hex}"
    administrator = create_engine(server, isolation_level="AUTOCOMMIT")
    with administrator.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
        yield server.set(database=name).render_as_string(hide_password=False)
        drop_database(connection, name)
    administrator.dispose()


def drop_database(connection: Connection, name: str) -> None:
    """Tries for ten seconds: only an administrator may end an autovacuum that is at work in the database."""
    for attempt in range(100):
        try:
            connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
        except ProgrammingError as error:
            if attempt == 99 or "pg_signal_backend" not in str(error):
                raise
            time.sleep(0.1)
        else:
            return
