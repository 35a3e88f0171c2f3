"""Writing to the truth in SQLite: one transaction at a time, with SQLAlchemy's tables."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError

from models.document_tables import documents_metadata
from models.errors import InvalidAnswer, StoreUnavailable
from models.near_duplicate_tables import near_duplicates_metadata
from search.embedded.connections import (
    CORPUS_FORMAT,
    connected,
    corpus_file,
    file_number,
    format_of,
    gone,
    translated,
)
from search.writer_lock import WriterLock

_SETUP_WAIT_S = 30.0


class Transactions:
    """Writes to a corpus that has its tables; opened at first use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._engine: Engine | None = None
        self._file: tuple[int, int] | None = None
        self._opening = threading.Lock()

    @contextmanager
    def writing(self, *, wait_s: float) -> Iterator[Connection]:
        """The one transaction at a time; committed whole or not at all."""
        with _translated(self._folder), self._opened().connect() as connection:
            # Outside of any transaction, as SQLite requires.
            _driver(connection).execute(f"PRAGMA busy_timeout = {int(wait_s * 1000)}")
            with connection.begin():
                yield connection

    def close(self) -> None:
        with self._opening:
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None

    def _opened(self) -> Engine:
        with self._opening:
            found = file_number(self._folder)
            if found is None:
                raise gone(self._folder)
            if self._engine is not None and found != self._file:
                self._engine.dispose()
                self._engine = None
            if self._engine is None:
                self._engine, self._file = _engine(self._folder), found
            return self._engine


def create_tables(folder: Path) -> None:
    """Create the tables in a file that has none, waiting for any other process that does the same."""
    # Two processes that create the same file would disturb each other's tables and WAL.
    lock = WriterLock(folder / "setup.lock", f"the corpus in {folder}")
    with lock.held(wait_s=_SETUP_WAIT_S), translated(folder):
        with closing(connected(folder, make=True)) as plain:
            plain.execute("PRAGMA journal_mode = WAL")
        with (
            closing(Transactions(folder)) as transactions,
            transactions.writing(wait_s=_SETUP_WAIT_S) as connection,
        ):
            if format_of(_driver(connection), folder) == 0:
                documents_metadata.create_all(connection)
                near_duplicates_metadata.create_all(connection)
                connection.exec_driver_sql(f"PRAGMA user_version = {CORPUS_FORMAT}")


def _engine(folder: Path) -> Engine:
    engine = create_engine(
        URL.create("sqlite", database=str(corpus_file(folder))),
        creator=lambda: connected(folder),
        json_serializer=lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")),
        pool_size=2,
        max_overflow=62,
    )
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def _driver(connection: Connection) -> sqlite3.Connection:
    driver = connection.connection.dbapi_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


@contextmanager
def _translated(folder: Path) -> Iterator[None]:
    """Translates SQLAlchemy's errors by their causes."""
    with translated(folder):
        try:
            yield
        except SQLAlchemyError as error:
            cause = getattr(error, "orig", None)
            if isinstance(cause, sqlite3.Error):
                raise cause from None
            if isinstance(cause, TypeError | ValueError):
                raise InvalidAnswer(f"the documents cannot be stored: {cause}") from error
            raise StoreUnavailable(f"the corpus in {folder} cannot be used now: {error}") from error
