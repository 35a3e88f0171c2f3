"""Connections to one cluster, kept open, and calls that end within their deadline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from models.retries import pauses, retried
from search.deadline import Deadline, TimedThreads
from search.engines.elasticsearch.dialect import Dialect, Request
from search.engines.elasticsearch.failures import Server, Transient, readable
from search.engines.elasticsearch.index_layout import Layout
from search.server_store import IndexCall

_PAUSES_S = (0.05, 0.1, 0.2)
"""Waits between the attempts."""


class Connection:
    """Thread-safe.  Connects with the first call, and sends nothing by itself."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect, self.endpoint, self.server = dialect, dialect.endpoint, dialect.server
        self._threads = TimedThreads(self.endpoint.connections, self.server.product.lower())

    def deadline(self, timeout_s: float | None = None) -> Deadline:
        """`timeout_s` defaults to the limit for an operation outside of requests."""
        return Deadline(self.endpoint.timeout_s if timeout_s is None else timeout_s, str(self.server))

    def ask(
        self,
        request: Request,
        deadline: Deadline | None = None,
        read: Callable[[Any], Any] = lambda answer: answer,
    ) -> Any:
        """What `read` makes of the answer; retries temporary failures, also those of `read`, until the deadline, by default that of a write."""
        deadline = deadline or self.deadline(self.endpoint.write_timeout_s)
        return retried(
            lambda: self._attempt(request, deadline, read),
            Transient,
            pause_s=pauses(*_PAUSES_S),
            for_s=deadline.left_s,
        )

    def _attempt(self, request: Request, deadline: Deadline, read: Callable[[Any], Any]) -> Any:
        """Gives up at the deadline, also when a name server is slow or a header arrives in drips."""
        answer = self._threads.run(lambda: self.dialect.send(request, deadline.check()), deadline)
        with readable(self.server):
            return read(answer)

    def close(self) -> None:
        self._threads.close()
        self.dialect.close()


@dataclass(frozen=True, slots=True)
class DialectCall(IndexCall):
    """The deadline holds for all requests of the call together."""

    connection: Connection
    layout: Layout
    deadline: Deadline

    @classmethod
    def on(cls, connection: Connection, layout: Layout, deadline: Deadline) -> DialectCall:
        return cls(layout.manifest, layout.has_vectors, connection, layout, deadline)

    @property
    def server(self) -> Server:
        return self.connection.server
