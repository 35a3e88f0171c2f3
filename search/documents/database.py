"""The documents' database (PostgreSQL, or SQLite in a file): its tables and the namespaces' locks."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from models.errors import BadIndex, StoreUnavailable, WriterBusy, WrongDeclaration
from models.tables.documents import documents_metadata, near_duplicates_metadata
from models.tables.schema import Schema, UnknownSchema
from search.documents.file_reading import NEWEST, VERSION_TABLE, failure_of, file_number, gone, is_damaged

SCHEMA = Schema(
    name="the documents' database",
    newest=NEWEST,
    revisions=Path(__file__).parent / "revisions",
    version_table=VERSION_TABLE,
    declared=lambda: (documents_metadata, near_duplicates_metadata),
)

_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}
_OF_ANOTHER_SESSION = ("42P05", "26000")
"""SQLSTATE: a prepared statement exists already, or does not exist."""
_CONNECT = {"sqlite": {"timeout": 30.0}, "postgresql": {"connect_timeout": 5, "tcp_user_timeout": 10_000}}
_POLL_S = 0.02
_SCHEMA_LOCK = ""
"""Held like a namespace; no namespace has an empty name."""
_SCHEMA_WAIT_S = 60.0
"""How long a process waits while another one makes or upgrades the tables: all workers of an installation start at once."""


class Database:
    """Thread-safe.  Connects at first use; a failure is DatabaseUnavailable, or BadIndex for a damaged file."""

    def __init__(self, address: str | Path, *, writer_wait_s: float = 5.0) -> None:
        """`address`: a file, or an address as SQLAlchemy takes it.  Raises WrongDeclaration for an invalid one."""
        try:
            parsed = (
                URL.create("sqlite", database=str(address))
                if isinstance(address, Path)
                else make_url(address)
            )
        except ArgumentError:
            raise WrongDeclaration("the documents' database: the address is not valid") from None
        kind = parsed.get_backend_name()
        if kind not in _DRIVERS:
            raise WrongDeclaration(
                f"the documents' database: no kind {kind!r}; there are: {', '.join(_DRIVERS)}"
            )
        self.address = parsed.render_as_string(hide_password=True)
        self._file = Path(parsed.database or "") if kind == "sqlite" else None
        self._engine = _engine(parsed.set(drivername=_DRIVERS[kind]), kind)
        self._wait_s = writer_wait_s
        self._is_prepared = False
        self._number: tuple[int, int] | None = None
        self._locks: dict[str, _NamespaceLock] = {}
        self._guard = threading.Lock()

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Later writes do not change what it reads."""
        self.prepare()
        with self._translated(), self._engine.connect() as connection:
            if self._file is None:
                connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    @contextmanager
    def writing(self, namespace: str) -> Iterator[Connection]:
        """A transaction on the connection that holds the namespace; raises WriterBusy.

        Several transactions that belong together need `exclusive` around them.  If its connection is lost, the lock is lost
        too: from then on it raises StoreUnavailable until `exclusive` is left.
        """
        with self.exclusive(namespace):
            connection = self._locks[namespace].connection
            assert connection is not None
            if connection.invalidated:
                # SQLAlchemy would reconnect with the next statement, without the lock.
                raise StoreUnavailable(
                    f"the connection to the documents' database {self.address} that held namespace {namespace!r} is lost, "
                    "and another process may write it now: hand it in again"
                )
            with self._translated(), connection.begin():
                yield connection

    @contextmanager
    def exclusive(self, namespace: str, *, wait_s: float | None = None) -> Iterator[None]:
        """Hold the namespace against other writers; raises WriterBusy.  The thread that holds it may enter again."""
        wait_s = self._wait_s if wait_s is None else wait_s
        if namespace != _SCHEMA_LOCK:
            self.prepare()
        with self._guard:
            lock = self._locks.setdefault(namespace, _NamespaceLock())
        if not lock.thread.acquire(timeout=wait_s):
            raise _busy(namespace)
        try:
            if lock.connection is not None:
                yield
                return
            with self._translated(), self._locked(namespace, wait_s) as connection:
                lock.connection = connection
                try:
                    yield
                finally:
                    lock.connection = None
        finally:
            lock.thread.release()

    def close(self) -> None:
        """Close the connections; they are opened again when needed."""
        self._engine.dispose()

    @contextmanager
    def _locked(self, namespace: str, wait_s: float) -> Iterator[Connection]:
        with ExitStack() as opened:
            if self._file is not None:
                # A connection makes the file.
                opened.enter_context(_file_lock(self._file, namespace, wait_s))
            connection = opened.enter_context(self._engine.connect()).execution_options(writes=True)
            if self._file is None:
                opened.enter_context(_advisory_lock(connection, namespace, wait_s))
            yield connection

    def set_aside(self) -> Path | None:
        """Let a new file be made where the old one is gone or damaged; returns where the damaged one is."""
        file = self._file
        if file is None:
            return None
        self.close()
        self._is_prepared = False
        if file_number(file) is None:
            return None
        # Without the lock, a file that another process has just made could be taken away from it.
        with _file_lock(file, _SCHEMA_LOCK, self._wait_s):
            if not is_damaged(file):
                return None
            aside = file.with_name(f"{file.name}.damaged-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}")
            for part in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    file.with_name(file.name + part).rename(aside.with_name(aside.name + part))
        return aside

    def prepare(self) -> None:
        """Create or upgrade the tables; raises BadIndex if another version created them, or the file is gone."""
        if self._is_prepared:
            if self._file is not None and (number := file_number(self._file)) != self._number:
                if number is None:
                    raise gone(self._file)
                self._engine.dispose()
                self._number = number
            return
        if self._file is not None:
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise failure_of(self._file, error) from error
        schema_lock = self.exclusive(_SCHEMA_LOCK, wait_s=_SCHEMA_WAIT_S)
        with schema_lock, self.writing(_SCHEMA_LOCK) as connection:
            try:
                SCHEMA.bring_up(connection)
            except UnknownSchema as error:
                raise BadIndex(str(error)) from None
        self._number = None if self._file is None else file_number(self._file)
        self._is_prepared = True

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            cause = getattr(error, "orig", None)
            if self._file is not None and isinstance(cause, sqlite3.Error):
                raise failure_of(self._file, cause) from error
            # The first line of libpq's message; the others repeat it for each address of the host.
            line = str(cause or error).partition("\n")[0]
            what = f"the documents' database {self.address} cannot be used: {line[:500]}"
            if getattr(cause, "sqlstate", None) in _OF_ANOTHER_SESSION:
                what += (
                    "; give CHORALE_DOCUMENTS_URL an address without pgbouncer, or pgbouncer's session mode"
                )
            raise DatabaseUnavailable(what) from error


class Plain:
    """A connection for `search.documents.lookups`: SQL with `?` for each value, whatever the driver."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._has_marks = connection.dialect.name == "sqlite"

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> Any:
        if not self._has_marks:
            statement = statement.replace("?", "%s")
        return self._connection.exec_driver_sql(statement, tuple(parameters))


class DatabaseUnavailable(StoreUnavailable):
    """The database does not answer or refuses the login."""


class _NamespaceLock:
    def __init__(self) -> None:
        self.thread = threading.RLock()
        self.connection: Connection | None = None


def _engine(url: Any, kind: str) -> Engine:
    # Values are documents, which must not appear in errors.
    engine = create_engine(url, connect_args=_CONNECT[kind], hide_parameters=True, pool_pre_ping=True)
    if kind == "sqlite":

        @event.listens_for(engine, "connect")
        def prepare(connection: Any, _record: object) -> None:
            # The driver would begin its transaction only with the first write.
            connection.isolation_level = None
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # an acknowledged batch survives a power cut
            connection.execute("PRAGMA journal_size_limit = 67108864")

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            writes = connection.get_execution_options().get("writes", False)
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    else:

        @event.listens_for(engine, "connect")
        def plan_anew(connection: Any, _record: object) -> None:
            # A plan made while a table was small would read all of it when it is large.
            connection.execute("SET plan_cache_mode = force_custom_plan")
            connection.commit()

    return engine


@contextmanager
def _file_lock(file: Path, namespace: str, wait_s: float) -> Iterator[None]:
    """Hold a namespace of a file against other processes; the kernel releases the lock when its holder dies."""
    from filelock import FileLock, Timeout  # its import takes 27 ms

    path = file.with_name(f"{file.name}.locks") / f"{namespace or 'schema'}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        lock = FileLock(path).acquire(wait_s, poll_interval=0.005)
    except Timeout:
        raise _busy(namespace) from None
    with lock:
        yield


@contextmanager
def _advisory_lock(connection: Connection, namespace: str, wait_s: float) -> Iterator[None]:
    digest = hashlib.sha256(f"chorale documents {namespace}".encode()).digest()
    key = int.from_bytes(digest[:8], "big", signed=True)
    give_up = time.monotonic() + wait_s
    while not connection.scalar(select(func.pg_try_advisory_lock(key))):
        connection.rollback()
        if time.monotonic() >= give_up:
            raise _busy(namespace)
        time.sleep(_POLL_S)
    connection.commit()
    try:
        yield
    finally:
        if not connection.closed and not connection.invalidated:
            connection.rollback()
            connection.execute(select(func.pg_advisory_unlock(key)))
            connection.commit()


def _busy(namespace: str) -> WriterBusy | DatabaseUnavailable:
    if namespace == _SCHEMA_LOCK:
        return DatabaseUnavailable(
            "another process makes or upgrades the tables of the documents' database; wait for it"
        )
    return WriterBusy(f"namespace {namespace!r} is being written by another process; wait for it or stop it")
