"""Connections to one cluster, kept open, and calls that end within their deadline."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from models.retries import pauses, retried
from search.deadline import Deadline
from search.engines.elasticsearch.dialect import Dialect, Request
from search.engines.elasticsearch.failures import Passing, Server, all_busy, readable
from search.engines.elasticsearch.index_layout import Layout

_PAUSES_S = (0.05, 0.1, 0.2)
"""Waits between the attempts."""


class Connection:
    """Thread-safe.  Connects with the first call, and sends nothing by itself."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect, self.endpoint, self.server = dialect, dialect.endpoint, dialect.server

    def deadline(self, timeout_s: float | None = None) -> Deadline:
        """`timeout_s` defaults to the limit for a write."""
        limit_s = self.endpoint.write_timeout_s if timeout_s is None else timeout_s
        return Deadline(limit_s, str(self.server))

    def ask(
        self,
        request: Request,
        deadline: Deadline | None = None,
        read: Callable[[Any], Any] = lambda answer: answer,
    ) -> Any:
        """What `read` makes of the answer; retries temporary failures, also those of `read`, until the deadline, by default that of a write."""
        deadline = deadline or self.deadline()
        return retried(
            lambda: self._attempt(request, deadline, read),
            Passing,
            pause_s=pauses(*_PAUSES_S),
            for_s=deadline.left_s,
        )

    def _attempt(self, request: Request, deadline: Deadline, read: Callable[[Any], Any]) -> Any:
        """Gives up at the deadline, also when a name server is slow or a header arrives in drips."""
        left_s = deadline.check()
        answering = self._threads.submit(lambda: self.dialect.send(request, deadline.check()))
        try:
            answer = answering.result(left_s)
        except TimeoutError:
            has_begun = not answering.cancel()
            raise deadline.over() if has_begun else all_busy(self.server) from None
        with readable(self.server):
            return read(answer)

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.endpoint.connections, thread_name_prefix=self.server.product.lower())

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.dialect.close()


@dataclass(frozen=True, slots=True)
class IndexCall:
    """One call of the store on one index; the deadline holds for all its requests together."""

    connection: Connection
    layout: Layout
    deadline: Deadline

    @property
    def server(self) -> Server:
        return self.connection.server
