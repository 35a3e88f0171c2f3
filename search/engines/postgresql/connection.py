"""Connections to one database, and transactions that end within their deadline."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any, TypeAlias, TypeVar, cast

import psycopg
from psycopg import errors
from sqlalchemy import create_engine, make_url
from sqlalchemy.exc import DBAPIError

from models.declarations.engines import PostgresqlEndpoint
from models.errors import BadIndex, InvalidAnswer, StageFailure, StoreUnavailable, Unauthorised
from search.deadline import Deadline
from search.server_store import MissingIndex, ServerConnection, Transient

_T = TypeVar("_T")
Session: TypeAlias = "psycopg.Connection[Any]"

_CONNECT = {
    "connect_timeout": 5,
    "tcp_user_timeout": 10_000,
    "autocommit": True,  # each transaction begins and ends by a statement
    "prepare_threshold": None,  # behind pgbouncer the next transaction may be on another connection
}
_BEGIN = "{}; SET LOCAL statement_timeout = {}; SET LOCAL jit = off"
"""A server with LLVM would compile a search of some 50,000 passages first, for longer than the search takes."""
_LOGIN = re.compile(r"authentication failed|no password|no pg_hba|role .* does not exist|permission denied")
_MEANINGS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], type[StageFailure], str], ...] = (
    (errors.UndefinedTable, MissingIndex, "has no such index"),
    (errors.InsufficientPrivilege, Unauthorised, "does not grant us the right"),
    (errors.ReadOnlySqlTransaction, StoreUnavailable, "is read-only, as a replica is: name the primary"),
    ((errors.DataCorrupted, errors.IndexCorrupted), BadIndex, "has a damaged table"),
    (errors.DiskFull, StoreUnavailable, "cannot be used"),
    (psycopg.OperationalError, Transient, "cannot be used"),
    (Exception, InvalidAnswer, "refuses a statement"),
)
"""The failure for each error, and what its text says after the server's name; the first that fits."""


class Connection(ServerConnection):
    """Thread-safe.  Connects with the first call.  Leaves nothing behind in a session, so that pgbouncer may stand between.

    A call that finds the server unavailable is made once more, with a new connection if the old one was closed.
    """

    def __init__(self, url: str, endpoint: PostgresqlEndpoint) -> None:
        """Raises ValueError or SQLAlchemy's ArgumentError, which may quote it, for an address that is not one of PostgreSQL."""
        address = make_url(url)
        without_options = address.set(query={})  # options may have a password too
        self.server = f"PostgreSQL at {without_options.render_as_string(hide_password=True)}"
        driven = address.set(drivername="postgresql+psycopg")
        self._engine = create_engine(driven, connect_args=_CONNECT, pool_size=endpoint.connections)
        super().__init__(endpoint, "postgresql")
        self._cutting = threading.Lock()
        """Held where a connection is cut or given back: one that is back in the pool may be another call's."""

    def read(self, work: Callable[[Session], _T], deadline: Deadline) -> _T:
        """The result of `work` in one snapshot, which a replica serves too."""
        return self._within(work, deadline, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def write(self, work: Callable[[Session], _T], timeout_s: float | None = None) -> _T:
        """The result of `work`, all of whose changes are visible afterwards, or none.  `timeout_s` defaults to the limit for a batch.

        A second call of `work` may follow one that was committed, if the connection was lost before the server said so.
        """
        deadline = self.deadline(timeout_s or self.endpoint.write_timeout_s)
        # Whoever waited for a lock sees what its holder changed, whatever level the database begins with.
        return self._within(work, deadline, "BEGIN ISOLATION LEVEL READ COMMITTED")

    def close(self) -> None:
        super().close()
        self._engine.dispose()

    def _within(self, work: Callable[[Session], _T], deadline: Deadline, begin: str) -> _T:
        sessions: list[Session] = []

        def attempt() -> _T:
            pool = self._engine.pool
            try:
                with closing(pool.connect()) as pooled:  # which rolls back what is not committed
                    sessions.append(session := cast("Session", pooled.driver_connection))
                    try:
                        # The server has .95 of the time, so that its own refusal arrives in time and the connection is kept.
                        session.execute(_BEGIN.format(begin, max(1, int(deadline.check() * 950))).encode())
                        result = work(session)
                        session.execute("COMMIT")
                        return result
                    finally:
                        with self._cutting:
                            sessions.clear()
                        if session.closed:
                            self._engine.dispose()  # a server that was started again has closed the others too
                        if pool is not self._engine.pool:
                            pooled.invalidate()
            except errors.QueryCanceled:
                raise deadline.over() from None
            except (psycopg.Error, DBAPIError, UnicodeEncodeError) as error:
                # SQLAlchemy wraps the errors of its own statements on the first connection.
                raise self._failure(getattr(error, "orig", error)) from error

        def cut() -> None:
            """Wakes the thread that waits for a silent server; otherwise such threads would pile up."""
            with self._cutting, suppress(OSError, psycopg.Error):
                for session in sessions:
                    with socket.fromfd(session.fileno(), socket.AF_INET, socket.SOCK_STREAM) as connected:
                        connected.shutdown(socket.SHUT_RDWR)

        return self.attempted(attempt, deadline, 0.0, give_up=cut)

    def _failure(self, error: Exception) -> StageFailure:
        # The first line of libpq's message; the others repeat it for each address of the host, or quote a row.
        line = str(error).partition("\n")[0][:300]
        if isinstance(error, psycopg.OperationalError) and error.sqlstate is None and _LOGIN.search(line):
            return Unauthorised(f"{self.server} refuses the login: {line}")
        kind, what = next((kind, what) for known, kind, what in _MEANINGS if isinstance(error, known))
        return kind(f"{self.server} {what}: {line}")
