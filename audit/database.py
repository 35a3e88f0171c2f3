"""The audit database: SQLite in a file, or PostgreSQL."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from pydantic_core import to_json
from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import DisconnectionError

from models.errors import WrongDeclaration

DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}

# Time limits for a server that does not answer.
CONNECT = {"sqlite": {}, "postgresql": {"connect_timeout": 5, "tcp_user_timeout": 10_000}}

# A drainer waits this long for a lock and then tries again, so that it can be stopped between attempts.
ON_CONNECT = {
    # With `secure_delete` SQLite overwrites what is deleted.
    "sqlite": ("PRAGMA busy_timeout = 2000", "PRAGMA foreign_keys = ON", "PRAGMA secure_delete = ON"),
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
        json_serializer=_json,
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
    def look(*_: object) -> None:
        if must_exist and not path.exists():
            raise sqlite3.OperationalError(f"the file {path} is gone")

    @event.listens_for(engine, "connect")
    def remember(_connection: object, record: Any) -> None:
        record.info["file"] = _identity(path)

    @event.listens_for(engine, "checkout")
    def compare(_connection: object, record: Any, _proxy: object) -> None:
        before = record.info["file"] = record.info["file"] or _identity(path)
        if before != _identity(path):
            raise DisconnectionError(f"the file {path} is gone, or was replaced by another file")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino


def _json(value: Any) -> str:
    """JSON for PostgreSQL: NaN and infinity become null."""
    return to_json(value, inf_nan_mode="null").decode()
