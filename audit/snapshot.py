"""Copies the audit trail while it is being written."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import URL

from audit.database import database_url
from models.errors import ServiceError


def trail_file(url: str | URL) -> Path | None:
    """The file of an SQLite audit database, else None."""
    parsed = database_url(url)
    return Path(parsed.database or "") if parsed.get_backend_name() == "sqlite" else None


def copy_trail(file: Path, to: Path) -> None:
    """Write a consistent copy of the whole database to `to`; raises ServiceError."""
    try:
        with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(to)) as target:
            source.backup(target)
            said = target.execute("PRAGMA quick_check").fetchone()[0]
    except sqlite3.Error as error:
        said = str(error)
    if said != "ok":
        raise ServiceError(f"the audit database {file} cannot be copied: {said}")
