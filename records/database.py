"""The audit database, SQLite in a file or PostgreSQL: its connections, its schema, and a copy while it is being written."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic_core import to_json
from sqlalchemy import URL, Connection, Engine, MetaData, create_engine, event, func, make_url, select
from sqlalchemy.exc import DisconnectionError, OperationalError, SQLAlchemyError

from models.errors import ServiceError, WrongDeclaration, cause
from models.tables.schema import Schema

DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}

# Time limits for a server that does not answer.
CONNECT = {
    "sqlite": {},
    "postgresql": {
        "connect_timeout": 5,
        "tcp_user_timeout": 10_000,
        "prepare_threshold": None,  # behind pgbouncer the next transaction may be on another connection
    },
}

# A drainer waits this long for a lock and then tries again, so that it can be stopped between attempts.
ON_CONNECT = {
    # With `secure_delete` SQLite overwrites what is deleted.
    "sqlite": ("PRAGMA busy_timeout = 2000", "PRAGMA secure_delete = ON"),
    "postgresql": ("SET lock_timeout = '2s'",),
}


def database_url(url: str | URL) -> URL:
    """`url` with our driver; raises WrongDeclaration if it is not a database for an audit trail."""
    parsed = make_url(url)
    name = parsed.get_backend_name()
    if name not in DRIVERS:
        raise WrongDeclaration(f"audit database: unknown kind {name!r}; there are: {', '.join(DRIVERS)}")
    if name == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise WrongDeclaration("audit database: SQLite needs a file, sqlite:////folder/audit.db")
    return parsed.set(drivername=DRIVERS[name])


def open_database(url: str | URL, *, must_exist: bool = False, **options: Any) -> Engine:
    """An engine for the audit database, not yet connected; `options` go to `create_engine`.

    Its errors do not contain values, which may be texts of questions.  With `must_exist`, a missing SQLite file is an
    error; otherwise it is created.
    """
    parsed = database_url(url)
    engine = create_engine(
        parsed,
        connect_args=CONNECT[parsed.get_backend_name()],
        json_serializer=to_text,
        hide_parameters=True,
        **options,
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        for statement in ON_CONNECT[engine.dialect.name]:
            cursor.execute(statement)
        cursor.close()
        connection.commit()

    if engine.dialect.name == "sqlite":
        _follow_the_file(engine, Path(parsed.database or ""), must_exist=must_exist)
    return engine


def _follow_the_file(engine: Engine, path: Path, *, must_exist: bool) -> None:
    """Reconnect if the file was deleted or replaced: rows written to a deleted file that is still open would be lost."""

    @event.listens_for(engine, "do_connect")
    def check_presence(*_: object) -> None:
        if must_exist and not path.exists():
            raise sqlite3.OperationalError(f"the file {path} is gone")

    @event.listens_for(engine, "connect")
    def note_identity(_connection: object, record: Any) -> None:
        record.info["file"] = _identity(path)

    @event.listens_for(engine, "checkout")
    def check_identity(_connection: object, record: Any, _proxy: object) -> None:
        before = record.info["file"] = record.info["file"] or _identity(path)
        if before != _identity(path):
            raise DisconnectionError(f"the file {path} is gone, or was replaced by another file")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino


def insert_into(connection: Connection | Engine, table: Any) -> Any:
    """The dialect's own `INSERT`, which can do nothing in a conflict.  The other dialect is not imported: that takes 40 ms."""
    return import_module(f"sqlalchemy.dialects.{connection.dialect.name}").insert(table)


def to_text(value: Any) -> str:
    """JSON for PostgreSQL: NaN and infinity become null."""
    return to_json(value, inf_nan_mode="null").decode()


@contextmanager
def available(
    connect: Callable[[], AbstractContextManager[Connection]], unavailable: type[ServiceError], what: str
) -> Iterator[Connection]:
    """A connection to the database of `what`; errors of SQL become `unavailable`."""
    try:
        with connect() as connection:
            yield connection
    except SQLAlchemyError as error:
        raise unavailable(f"the database of the {what} cannot be used: {cause(error)}") from error


def _declared() -> Sequence[MetaData]:
    # The mapper of the audit tables takes longer to import than most commands run.
    from models.tables.audit import AuditTable
    from models.tables.installation import installation_metadata

    return AuditTable.metadata, installation_metadata


SCHEMA = Schema(
    name="the audit database",
    newest="0.1.0",
    revisions=Path(__file__).parent / "revisions",
    version_table="chorale_audit_version",
    declared=_declared,
)

_ADVISORY_LOCK = 0x63686F72616C65  # "chorale"


def upgrade(url: str | URL, *, wait_s: float = 60.0) -> None:
    """Bring the database at `url` to its newest schema; creates the database if it is missing.

    Any number of processes may call this at once: one works, the others wait up to `wait_s`.  A kill leaves the old
    schema.  Raises UnknownSchema, and ServiceError after `wait_s`.
    """
    engine = open_database(url)
    try:
        with LOCKS[engine.dialect.name](engine, wait_s) as connection:
            SCHEMA.bring_up(connection)
    finally:
        engine.dispose()


@contextmanager
def _alone_on_sqlite(engine: Engine, wait_s: float) -> Iterator[Connection]:
    from filelock import FileLock, Timeout  # its import takes 27 ms

    path = Path(engine.url.database or "")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        lock = FileLock(path.with_name(f"{path.name}.lock")).acquire(wait_s, poll_interval=0.02)
    except Timeout:
        raise ServiceError(_busy(engine, wait_s)) from None
    with lock, engine.connect() as connection:
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


def trail_file(url: str | URL) -> Path | None:
    """The file of an SQLite audit database, else None."""
    parsed = database_url(url)
    return Path(parsed.database or "") if parsed.get_backend_name() == "sqlite" else None


def copy_trail(file: Path, to: Path) -> None:
    """Write a consistent copy of the whole database to `to`; raises ServiceError."""
    try:
        with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(to)) as target:
            source.backup(target)
            check = target.execute("PRAGMA quick_check").fetchone()[0]
    except sqlite3.Error as error:
        check = str(error)
    if check != "ok":
        raise ServiceError(f"the audit database {file} cannot be copied: {check}")
