"""The truth in SQLite: `corpus.db`, opened once a process, SQL's errors translated to the store's."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError

from models.corpus_tables import CORPUS_FORMAT, corpus_metadata
from models.errors import BadIndex, InvalidAnswer, StoreUnavailable
from search.embedded.locks import WriterLock

_SETUP_WAIT_S = 30.0
_READ_WAIT_S = 5.0
_PASSING = ("locked", "busy", "disk is full", "disk full", "readonly", "read-only", "unable to open")
"""What SQLite says when the file is whole and only cannot be used now."""

# One row a search, so plain prepared SQL: SQLAlchemy's statement costs several times the query.
PULSE = """
    SELECT n.namespace_id, n.sequence, n.visible, coalesce(g.generation, 0), n.lexical, n.manifest
    FROM chorale_namespace n LEFT JOIN chorale_generation g ON g.name = n.name WHERE n.name = ?
"""


@dataclass(frozen=True, slots=True)
class Pulse:
    """Where a namespace stands now."""

    namespace_id: int
    sequence: int
    visible: int
    generation: int
    lexical: str
    manifest: str
    """JSON."""

    @property
    def is_behind(self) -> bool:
        """A batch is committed that the lexical index has not got (yet)."""
        return self.visible < self.sequence


class Corpus:
    """The file and its connections; opened at first use, so that it can be made before a fork."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._engine: Engine | None = None
        self._opening = threading.Lock()

    @property
    def engine(self) -> Engine:
        with self._opening:
            if self._engine is None:
                self._engine = self._opened()
            return self._engine

    def pulse(self, namespace: str) -> Pulse | None:
        """None if there is no such namespace."""
        engine = self.engine
        with translated(self.folder):
            connection = engine.raw_connection()
            try:
                cursor = connection.cursor()
                cursor.execute(PULSE, (namespace,))
                row = cursor.fetchone()
                cursor.close()
            finally:
                connection.close()
        return Pulse(*row) if row else None

    def lexical_folder(self, name: str) -> Path:
        return self.folder / "lexical" / name

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One snapshot, whatever is written meanwhile."""
        engine = self.engine
        with translated(self.folder), engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self, *, wait_s: float) -> Iterator[Connection]:
        """One transaction, the only one; committed at the end, or nothing of it."""
        engine = self.engine
        with translated(self.folder), engine.connect() as connection:
            _pragma(connection, f"busy_timeout = {int(wait_s * 1000)}")
            try:
                with connection.execution_options(chorale_writes=True).begin():
                    yield connection
            finally:
                _pragma(connection, f"busy_timeout = {int(_READ_WAIT_S * 1000)}")

    def close(self) -> None:
        with self._opening:
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None

    def _opened(self) -> Engine:
        with translated(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            engine = create_engine(
                URL.create("sqlite", database=str(self.folder / "corpus.db")),
                json_serializer=lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")),
                pool_size=8,
                max_overflow=56,
            )
            event.listen(engine, "connect", _on_connect)
            event.listen(engine, "begin", _on_begin)
            try:
                self._set_up(engine)
            except BaseException:
                engine.dispose()
                raise
        return engine

    def _set_up(self, engine: Engine) -> None:
        with engine.connect() as connection:
            if self._format(connection) == CORPUS_FORMAT:
                return
        # Two processes that make the same file at once would trip over each other's tables and WAL.
        lock = WriterLock(self.folder / "setup.lock", f"the corpus in {self.folder}")
        with lock.held(wait_s=_SETUP_WAIT_S), engine.connect() as connection:
            _pragma(connection, "journal_mode = WAL")
            with connection.execution_options(chorale_writes=True).begin():
                if self._format(connection) == 0:
                    corpus_metadata.create_all(connection)
                    connection.exec_driver_sql(f"PRAGMA user_version = {CORPUS_FORMAT}")

    def _format(self, connection: Connection) -> int:
        version = int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
        if version > CORPUS_FORMAT:
            raise BadIndex(
                f"the corpus in {self.folder} has format {version}, and this program reads up to "
                f"{CORPUS_FORMAT}: use the newer program, or index into another folder"
            )
        return version


def _on_connect(connection: sqlite3.Connection, _record: object) -> None:
    # Transactions begin where SQLAlchemy's `begin` event says; the driver's own idea leaves reads outside.
    connection.isolation_level = None
    for pragma in (
        f"busy_timeout = {int(_READ_WAIT_S * 1000)}",
        "synchronous = FULL",  # an acknowledged batch survives a power cut
        "journal_size_limit = 67108864",
        "cache_size = -16384",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _pragma(connection: Connection, pragma: str) -> None:
    """Outside of any transaction, where SQLite wants it."""
    driver = connection.connection.dbapi_connection
    assert driver is not None
    driver.cursor().execute(f"PRAGMA {pragma}")


def _on_begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("chorale_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def translated(folder: Path) -> Iterator[None]:
    """SQL's errors as the store's: what may pass is StoreUnavailable, damage is BadIndex."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        cause = getattr(error, "orig", None) or error
        if isinstance(cause, TypeError | ValueError):
            raise InvalidAnswer(f"the documents cannot be stored: {cause}") from error
        passing = any(words in str(cause).lower() for words in _PASSING)
        if passing or not isinstance(cause, sqlite3.Error):
            raise StoreUnavailable(f"the corpus in {folder} cannot be used now: {cause}") from error
        raise BadIndex(
            f"the corpus in {folder} is damaged: {cause}; restore it from a backup, "
            "or remove the folder and index again"
        ) from error
    except UnicodeEncodeError as error:
        raise InvalidAnswer(f"a text has characters that no encoding can carry: {error}") from error
    except OSError as error:
        raise StoreUnavailable(f"the corpus in {folder} cannot be used: {error}") from error
