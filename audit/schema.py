"""The schema of the audit database, brought up to date by whoever starts first."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, func, inspect, select, text
from sqlalchemy.exc import OperationalError

from audit.database import open_database
from models.errors import ServiceError

HEAD = "0001"
"""The newest revision in `migrations/versions`; a database that has it is left alone, Alembic not loaded."""

VERSION_TABLE = "chorale_audit_version"

_MIGRATIONS = Path(__file__).parent / "migrations"
_ADVISORY_LOCK = 0x63686F72616C65  # "chorale"


class SchemaTooNew(ServiceError):
    """The audit database was written by a newer version; start that one, or use another database."""


class SchemaBusy(ServiceError):
    """Another process has been changing the schema for too long; see what it is doing, then start again."""


def upgrade(url: str | URL, *, wait_s: float = 60.0) -> None:
    """Bring the database at `url` to HEAD, making it where there is none.

    Safe to call from any number of processes at once: one works, the rest wait up to `wait_s`.  Killed in the
    middle it leaves the old schema.  Raises SchemaTooNew and SchemaBusy.
    """
    engine = open_database(url)
    try:
        with LOCKS[engine.dialect.name](engine, wait_s) as connection:
            found = revision(connection)
            if found != HEAD:
                _migrate(connection, found)
    finally:
        engine.dispose()


def revision(connection: Connection) -> str | None:
    """The revision that the database has; None for an empty one."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found: str | None = connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))
    return found


def _migrate(connection: Connection, found: str | None) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise SchemaTooNew(
            f"the audit database {connection.engine.url.render_as_string()} has schema {found}, and this "
            f"version knows none after {HEAD}; start the newer version that wrote it, or use another database"
        )
    command.upgrade(config, "head")


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
                    raise SchemaBusy(_busy(engine, wait_s)) from None
                time.sleep(0.02)
        with engine.connect() as connection:
            # Kept in the file.  Two processes that set it at once would see "locked", whatever the busy
            # timeout: hence the lock beside the database.
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
            connection.commit()
            # A drainer may be writing: wait for it as long as for another upgrade.
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {round(wait_s * 1000)}")
            # The driver would commit each CREATE by itself, and a kill leave half a schema.
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
            raise SchemaBusy(_busy(engine, wait_s)) from error
        yield connection


def _busy(engine: Engine, wait_s: float) -> str:
    return f"another process has been changing the schema of {engine.url.render_as_string()} for {wait_s:g} s"


LOCKS = {"sqlite": _alone_on_sqlite, "postgresql": _alone_on_postgresql}
