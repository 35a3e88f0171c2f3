"""Connections to Redis whose waits end with the caller's time limit.

A socket timeout starts anew with each command; a caller has one limit for all of its commands.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis import Redis

_SHORTEST_S = 0.001
"""A timeout of 0 would make the socket non-blocking."""


class TimeLimit(threading.local):
    """The time at which the caller of this thread must have its answer; no limit outside of `until`."""

    _ends_at_s: float | None = None

    @contextmanager
    def until(self, moment_s: float) -> Iterator[None]:
        """`moment_s` is by the monotonic clock; of nested limits the earliest holds."""
        before = self._ends_at_s
        self._ends_at_s = moment_s if before is None else min(before, moment_s)
        try:
            yield
        finally:
            self._ends_at_s = before

    def shorten(self, timeout_s: float | None) -> float | None:
        """The timeout, or the time left if that is less; None is no timeout."""
        if self._ends_at_s is None:
            return timeout_s
        left_s = max(_SHORTEST_S, self._ends_at_s - time.monotonic())
        return left_s if timeout_s is None else min(timeout_s, left_s)


def keep_to(limit: TimeLimit, client: Redis) -> None:
    """Make connecting, sending and reading of this client end with `limit`.  Call it before the client is used."""
    kind: Any = client.connection_pool.connection_class

    class Limited(kind):  # type: ignore[misc]  # TCP, TLS or unix socket, as the address says
        def _connect(self) -> Any:
            # The socket timeout also limits the TLS handshake.
            timeouts_s: tuple[float | None, float | None] = (
                super().socket_connect_timeout,
                super().socket_timeout,
            )
            self.socket_connect_timeout, self.socket_timeout = map(limit.shorten, timeouts_s)
            try:
                return super()._connect()
            finally:
                self.socket_connect_timeout, self.socket_timeout = timeouts_s

        def _tighten(self) -> None:
            if self._sock is not None:
                self._sock.settimeout(limit.shorten(self.socket_timeout))

        def send_packed_command(self, *args: Any, **options: Any) -> None:
            self._tighten()
            super().send_packed_command(*args, **options)

        def read_response(self, *args: Any, **options: Any) -> Any:
            self._tighten()
            return super().read_response(*args, **options)

    client.connection_pool.connection_class = Limited
