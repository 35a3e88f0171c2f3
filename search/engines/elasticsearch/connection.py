"""Connections to one cluster, kept open, and calls that end within their deadline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from models.declarations.engines import ElasticsearchEndpoint
from search.deadline import Deadline
from search.engines.elasticsearch.dialect import Dialect, Request
from search.engines.elasticsearch.failures import Server, readable
from search.engines.elasticsearch.index_layout import Layout
from search.server_store import IndexCall, ServerConnection

_PAUSES_S = (0.05, 0.1, 0.2)
"""Waits between the attempts."""


class Connection(ServerConnection):
    """Thread-safe.  Connects with the first call, and sends nothing by itself."""

    endpoint: ElasticsearchEndpoint
    server: Server

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect.endpoint, dialect.product.lower())
        self.dialect, self.endpoint, self.server = dialect, dialect.endpoint, dialect.server

    def send(
        self,
        request: Request,
        deadline: Deadline | None = None,
        read: Callable[[Any], Any] = lambda answer: answer,
    ) -> Any:
        """What `read` makes of the answer; retries temporary failures, also those of `read`, until the deadline, by default that of a write."""
        ends = deadline or self.deadline(self.endpoint.write_timeout_s)

        def attempt() -> Any:
            answer = self.dialect.send(request, ends.check())
            with readable(self.server):
                return read(answer)

        # At the deadline the call ends also when a name server is slow or a header arrives in drips.
        return self.attempted(attempt, ends, *_PAUSES_S)

    def close(self) -> None:
        super().close()
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
