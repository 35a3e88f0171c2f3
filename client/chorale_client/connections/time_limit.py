"""Connections to Redis whose waits end with the caller's time limit, and which notice a dead peer.

A socket timeout starts anew with each command; a caller has one limit for all of its commands.  A balancer or a firewall
may drop a connection without a word: then an answer never comes, and the command is sent again on a new connection.  Every
command of a caller may be done twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, TimeoutError
from redis.retry import Retry

from chorale_client.connections import idle

_SHORTEST_S = 0.001
"""A timeout of 0 would make the socket non-blocking."""
_FIRST_SHARE = 0.5
"""Share of the time that is left for the first attempt of a command."""


class TimeLimit(threading.local):
    """The time at which the caller of this thread must have its answer; no limit outside of `until`."""

    _ends_at_s: float | None = None
    is_in_attempt = False
    """Whether a command is being tried; what it has to do first, such as to connect, is part of its attempt."""

    @contextmanager
    def until(self, moment_s: float) -> Iterator[None]:
        """`moment_s` is by the monotonic clock; of nested limits the earliest holds."""
        before = self._ends_at_s
        self._ends_at_s = moment_s if before is None else min(before, moment_s)
        try:
            yield
        finally:
            self._ends_at_s = before

    @contextmanager
    def attempt(self, within_s: float) -> Iterator[None]:
        self.is_in_attempt = True
        try:
            with self.until(time.monotonic() + within_s):
                yield
        finally:
            self.is_in_attempt = False

    def shorten(self, timeout_s: float | None) -> float | None:
        """The timeout, or the time left if that is less; None is no timeout."""
        if self._ends_at_s is None:
            return timeout_s
        remaining_s = max(_SHORTEST_S, self._ends_at_s - time.monotonic())
        return remaining_s if timeout_s is None else min(timeout_s, remaining_s)


class TwoAttempts(Retry):
    """redis-py's `retry`: a command that gets no answer in half of the time is sent again on a new connection."""

    def __init__(self, limit: TimeLimit, timeout_s: float) -> None:
        super().__init__(NoBackoff(), 1)
        self._limit = limit
        self._timeout_s = timeout_s

    def __deepcopy__(self, _: Any) -> TwoAttempts:
        # redis-py copies it for each connection; all share the limit.
        return self

    def call_with_retry(self, do: Callable[[], Any], *rest: Any, **options: Any) -> Any:
        if self._limit.is_in_attempt:
            return do()
        shares = iter((_FIRST_SHARE, 1.0))

        def attempt() -> Any:
            remaining_s = self._limit.shorten(self._timeout_s) or self._timeout_s
            with self._limit.attempt(next(shares) * remaining_s):
                return do()

        return super().call_with_retry(attempt, *rest, **options)


def enforce(limit: TimeLimit, client: Redis) -> None:
    """Make connecting, sending and reading of this client end with `limit`.  Call it before the client is used."""
    kind: Any = client.connection_pool.connection_class

    class Limited(kind):  # type: ignore[misc]  # TCP, TLS or unix socket, as the address says
        socket_timeout: float | None
        socket_connect_timeout: float | None
        _received_at_s = 0.0

        def _connect(self) -> Any:
            # The socket timeout also limits the TLS handshake.
            timeouts_s = self.socket_connect_timeout, self.socket_timeout
            self.socket_connect_timeout, self.socket_timeout = map(limit.shorten, timeouts_s)
            try:
                connected = super()._connect()
            finally:
                self.socket_connect_timeout, self.socket_timeout = timeouts_s
            self._received_at_s = idle.now_s()
            return connected

        def _tighten(self) -> None:
            if self._sock is not None:
                self._sock.settimeout(limit.shorten(self.socket_timeout))

        def check_health(self) -> None:
            """redis-py calls it before a command is sent."""
            if idle.now_s() - self._received_at_s < idle.IDLE_S:
                return
            try:
                with limit.until(time.monotonic() + idle.ANSWERS_WITHIN_S):
                    self.send_command("PING", check_health=False)
                    self.read_response()
            except (ConnectionError, TimeoutError):
                self.disconnect()
                self.connect()

        def send_packed_command(self, *args: Any, **options: Any) -> None:
            self._tighten()
            super().send_packed_command(*args, **options)

        def read_response(self, *args: Any, **options: Any) -> Any:
            self._tighten()
            response = super().read_response(*args, **options)
            self._received_at_s = idle.now_s()
            return response

    client.connection_pool.connection_class = Limited
