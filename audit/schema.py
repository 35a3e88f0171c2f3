"""Brings the schema of the audit database up to date."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, func, select
from sqlalchemy.exc import OperationalError

from audit.database import open_database
from models.errors import ServiceError
from models.schema import Schema

SCHEMA = Schema(
    name="the audit database",
    newest="0004",
    revisions=Path(__file__).parent / "revisions",
    version_table="chorale_audit_version",
)

_ADVISORY_LOCK = 0x63686F72616C65  # "chorale"


def upgrade(url: str | URL, *, wait_s: float = 60.0) -> None:
    """Bring the database at `url` to its newest schema; creates the database if it is missing.

    Any number of processes may call this at once: one works, the others wait up to `wait_s`.  A kill leaves the old
    schema.  Raises SchemaTooNew, and ServiceError after `wait_s`.
    """
    engine = open_database(url)
    try:
        with LOCKS[engine.dialect.name](engine, wait_s) as connection:
            SCHEMA.bring_up(connection)
    finally:
        engine.dispose()


@contextmanager
def _alone_on_sqlite(engine: Engine, wait_s: float) -> Iterator[Connection]:
    path = Path(engine.url.database or "")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        give_up = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > give_up:
                    raise ServiceError(_busy(engine, wait_s)) from None
                time.sleep(0.02)
        with engine.connect() as connection:
            # Two processes that set this at once would fail with "locked" despite the busy timeout: hence the lock file.
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
            connection.commit()
            # Wait for a drainer as long as for another upgrade.
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {round(wait_s * 1000)}")
            # Otherwise the driver would commit each CREATE, and a kill could leave half a schema.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection
            connection.commit()


@contextmanager
def _alone_on_postgresql(engine: Engine, wait_s: float) -> Iterator[Connection]:
    with engine.begin() as connection:
        connection.execute(select(func.set_config("lock_timeout", f"{round(wait_s * 1000)}ms", True)))
        try:
            connection.execute(select(func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        except OperationalError as error:
            raise ServiceError(_busy(engine, wait_s)) from error
        yield connection


def _busy(engine: Engine, wait_s: float) -> str:
    return f"another process has been changing the schema of {engine.url.render_as_string()} for {wait_s:g} s"


LOCKS = {"sqlite": _alone_on_sqlite, "postgresql": _alone_on_postgresql}
