"""Connections to one database, and transactions that end within their deadline."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar, cast

import psycopg
from psycopg import errors
from sqlalchemy import PoolProxiedConnection, create_engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from models.endpoints import PostgresqlEndpoint
from models.errors import (
    BadIndex,
    InvalidAnswer,
    NotConfigured,
    StoreTimeout,
    StoreUnavailable,
    Unauthorised,
)
from search.deadline import Deadline

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
_OF_SERVER = 0.95
"""The server's share of the time, so that its own refusal arrives in time and the connection is kept."""
_LOGIN = re.compile(
    r"authentication failed|no password supplied|no pg_hba|role .* does not exist|permission denied"
)


class MissingIndex(BadIndex):
    """The tables of the index do not exist (any more)."""


class Connection:
    """Thread-safe.  Connects with the first call.  Leaves nothing behind in a session, so that pgbouncer may stand between."""

    def __init__(self, url: str, endpoint: PostgresqlEndpoint) -> None:
        """Raises NotConfigured for an address that is not one of PostgreSQL."""
        self.endpoint = endpoint
        try:
            address = make_url(url)
            is_ours = address.get_backend_name() == "postgresql"
        except (ArgumentError, ValueError):
            is_ours = False
        if not is_ours:
            raise NotConfigured(
                f"the variable {endpoint.url_env} is no address of PostgreSQL: postgresql://USER:PASSWORD@HOST/DATABASE"
            )
        self.address = address.set(query={}).render_as_string(hide_password=True)  # options may have one too
        self._engine = create_engine(
            address.set(drivername="postgresql+psycopg"),
            connect_args=_CONNECT,
            pool_size=endpoint.connections,
            max_overflow=0,
        )
        self._threads = ThreadPoolExecutor(endpoint.connections, thread_name_prefix="postgresql")
        self._cutting = threading.Lock()
        """Held where a connection is cut or given back: one that is back in the pool may be another call's."""

    def deadline(self, timeout_s: float | None = None) -> Deadline:
        """`timeout_s` defaults to the limit for a write."""
        limit_s = self.endpoint.write_timeout_s if timeout_s is None else timeout_s
        return Deadline(limit_s, f"PostgreSQL at {self.address}")

    def read(self, work: Callable[[Session], _T], deadline: Deadline) -> _T:
        """The result of `work` in one snapshot, which a replica serves too."""
        return self._within(work, deadline, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def write(self, work: Callable[[Session], _T], deadline: Deadline | None = None) -> _T:
        """The result of `work`, all of whose changes are visible afterwards, or none."""
        # Whoever waited for a lock sees what its holder changed, whatever level the database begins with.
        return self._within(work, deadline or self.deadline(), "BEGIN ISOLATION LEVEL READ COMMITTED")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._engine.dispose()

    def _within(self, work: Callable[[Session], _T], deadline: Deadline, begin: str) -> _T:
        held: list[Session] = []
        answering = self._threads.submit(self._transaction, work, deadline, begin, held)
        try:
            return answering.result(deadline.check())
        except TimeoutError:
            if answering.cancel():
                raise StoreTimeout(
                    f"no connection to PostgreSQL at {self.address} came free in time: raise the store's `connections`"
                ) from None
            with self._cutting:
                for session in held:
                    _cut(session)
            raise deadline.over() from None

    def _transaction(
        self, work: Callable[[Session], _T], deadline: Deadline, begin: str, held: list[Session]
    ) -> _T:
        try:
            pooled = self._begun(deadline, begin, held)
            try:
                answer = work(held[0])
                held[0].execute("COMMIT")
                return answer
            finally:
                with self._cutting:
                    session = held.pop()
                if session.closed:
                    pooled.invalidate()
                pooled.close()  # rolls back what is not committed
        except errors.QueryCanceled:
            raise deadline.over() from None
        except (psycopg.Error, DBAPIError) as error:
            raise self._failure(error.orig if isinstance(error, DBAPIError) else error) from error
        except UnicodeEncodeError as error:
            raise InvalidAnswer(f"PostgreSQL takes no such text: {error}") from error

    def _begun(self, deadline: Deadline, begin: str, held: list[Session]) -> PoolProxiedConnection:
        """A connection in a transaction; a new one in place of those that a server has closed meanwhile."""
        for stale in range(self.endpoint.connections, -1, -1):
            pooled = self._engine.raw_connection()
            held[:] = [cast("Session", pooled.driver_connection)]
            try:
                # After connecting, which may have taken the time that there was.
                limit_ms = max(1, int(deadline.check() * 1_000 * _OF_SERVER))
                held[0].execute(_BEGIN.format(begin, limit_ms).encode())
                return pooled
            except psycopg.OperationalError:
                held.clear()
                pooled.invalidate()
                if not stale:
                    raise
            except BaseException:
                held.clear()
                pooled.close()
                raise
        raise AssertionError("the last attempt returns or raises")

    def _failure(self, error: BaseException | None) -> Exception:
        # The first line of libpq's message; the others repeat it for each address of the host, or quote a row.
        at, line = f"PostgreSQL at {self.address}", str(error).partition("\n")[0][:300]
        match error:
            case errors.UndefinedTable():
                return MissingIndex(f"{at} has no such index: {line}")
            case errors.InsufficientPrivilege():
                return Unauthorised(f"{at} does not grant us the right: {line}")
            case errors.ReadOnlySqlTransaction():
                return StoreUnavailable(f"{at} is read-only, as a replica is: name the primary: {line}")
            case errors.DiskFull():
                return StoreUnavailable(f"{at} has no space left: {line}")
            case errors.DataCorrupted() | errors.IndexCorrupted():
                return BadIndex(f"{at} has a damaged table: {line}")
            case psycopg.OperationalError() if error.sqlstate is None and _LOGIN.search(line):
                return Unauthorised(f"{at} refuses the login: {line}")
            case psycopg.OperationalError():
                return StoreUnavailable(f"{at} cannot be used: {line}")
        return InvalidAnswer(f"{at} refuses a statement: {line}")


def _cut(session: Session) -> None:
    """Wakes the thread that waits for a silent server; otherwise such threads would pile up."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(session.fileno())) as connected:
        connected.shutdown(socket.SHUT_RDWR)
