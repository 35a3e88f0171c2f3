"""Reading the documents' database where it is a file, with plain `sqlite3`: SQLAlchemy takes .8 s to import."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from models.errors import BadIndex, ServiceError, StoreUnavailable

VERSION_TABLE = "chorale_stored_version"
NEWEST = "0.1.0"
"""The newest revision of the tables (`search.documents.revisions`)."""

_PRAGMAS = (
    "busy_timeout = 5000",
    "synchronous = FULL",  # an acknowledged batch survives a power cut
    "journal_size_limit = 67108864",
    "cache_size = -16384",
)
_TRANSIENT = ("locked", "busy", "disk is full", "disk full", "readonly", "read-only", "unable to open")
"""Words of SQLite's errors for a file that is intact but cannot be used now."""
_MOST_OPEN = 8
"""Idle connections that are kept open; more are opened when needed."""


def file_of(url: str) -> Path | None:
    """The file of the documents' database; None if a server holds it."""
    kind, _, path = url.partition("://")
    return Path(path.removeprefix("/").partition("?")[0]) if kind.startswith("sqlite") else None


def file_number(file: Path) -> tuple[int, int] | None:
    """Identifies the file, so that a replacement under the same name is noticed; None if there is no file."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def gone(file: Path) -> BadIndex:
    return BadIndex(
        f"{file} is gone; restore it from a backup, or index again with `chorale index --rebuild`"
    )


def failure_of(file: Path, error: Exception) -> ServiceError:
    """StoreUnavailable for what may pass, BadIndex for damage."""
    if isinstance(error, OSError) or any(words in str(error).lower() for words in _TRANSIENT):
        return StoreUnavailable(f"the documents in {file} cannot be used now: {error}")
    return BadIndex(
        f"the documents in {file} are damaged: {error}; restore them from a backup, or index again with "
        "`chorale index --rebuild`"
    )


@contextmanager
def translated(file: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise failure_of(file, error) from error


def connected(file: Path) -> sqlite3.Connection:
    """A connection to an existing file, for one thread at a time; transactions begin only with an explicit BEGIN."""
    address = f"{file.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    return connection


def is_damaged(file: Path) -> bool:
    """Whether some table of an existing file cannot be read, or nothing is left of it; raises StoreUnavailable."""
    try:
        with translated(file), closing(connected(file)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (table,) in tables:
                connection.execute(f'SELECT * FROM "{table}" LIMIT 1').fetchone()
            return not tables
    except BadIndex:
        return True


class DocumentsFile:
    """The file and its reading connections; opened at first use, so that the object can be created before a fork."""

    def __init__(self, path: Path, bring_up: Callable[[], object]) -> None:
        """`bring_up` creates the tables, or upgrades them."""
        self.path = path
        self._bring_up = bring_up
        self._opening = threading.Lock()
        self._is_set_up = False
        self._free: list[sqlite3.Connection] = []
        self._number: tuple[int, int] | None = None
        self.replaced = 0
        """Number of times another file replaced the open one.  Anything read before a replacement is invalid."""

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One snapshot, which later writes do not change."""
        with translated(self.path), self._borrowed() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                # SQLite itself ends the transaction after some errors.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def close(self) -> None:
        with self._opening:
            free, self._free = self._free, []
            self._is_set_up = False
        for connection in free:
            connection.close()

    def _set_up(self) -> None:
        with self._opening:
            if not self._is_set_up:
                if self._revision() != NEWEST:
                    self._bring_up()
                self._number = file_number(self.path)
                self._is_set_up = True

    def _revision(self) -> str | None:
        if file_number(self.path) is None:
            return None
        with closing(connected(self.path)) as connection, suppress(sqlite3.OperationalError):
            return str(connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()[0])
        return None

    @contextmanager
    def _borrowed(self) -> Iterator[sqlite3.Connection]:
        if not self._is_set_up:
            self._set_up()
        if (number := file_number(self.path)) != self._number:
            self._follow(number)
        free = self._free
        try:
            connection = free.pop()
        except IndexError:
            connection = connected(self.path)
        try:
            yield connection
        finally:
            if free is self._free and len(free) < _MOST_OPEN:
                free.append(connection)
            else:
                connection.close()

    def _follow(self, number: tuple[int, int] | None) -> None:
        """Use the new file from now on.  If there is none, open connections can still read the whole old file."""
        if number is None:
            if not self._free:
                raise gone(self.path)
            return
        with self._opening:
            if number == self._number:
                return
            old, self._free = self._free, []
            self._number = number
            self.replaced += 1
        for connection in old:
            connection.close()
