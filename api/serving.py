"""The server process: uvicorn with this API, and limits for the head of a request."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from config.logging import set_up_logging
from config.settings import Settings, load_settings

HEAD_S = 10.0
"""Seconds in which the head of a request must arrive."""
HEAD_BYTES = 65_536
UNREAD_S, UNREAD_BYTES = 5.0, 1_000_000
"""How long, and how much of, a body is still taken after its response.  A connection that was closed at once would lose the
response."""


class LimitedRequests(HttpToolsProtocol):
    """Closes connections whose request does not begin, whose head is too slow or too large, or whose body goes on after the
    response.

    The parser refuses what a proxy could read otherwise: a length beside chunks, lines that end in a bare LF, folded headers.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        """Closes the connection: while a head arrives, or a body that nobody reads."""
        self._is_head = True
        self._unread_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self._begin_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
                self._end_timer()
                self.send_400_response(f"The head of a request has at most {HEAD_BYTES} bytes.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begin_head()

    def on_headers_complete(self) -> None:
        self._is_head = False
        self._unread_bytes = 0
        self._end_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        if self.cycle.response_complete:
            self._unread_bytes += len(body)
            if self._unread_bytes > UNREAD_BYTES:
                self.transport.close()

    def on_message_complete(self) -> None:
        self._end_timer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self.cycle.more_body:
            self._close_in(UNREAD_S)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_timer()
        super().connection_lost(exc)

    def _begin_head(self) -> None:
        self._is_head, self._head_bytes = True, 0
        self._close_in(HEAD_S)

    def _close_in(self, seconds: float) -> None:
        self._end_timer()
        self._timer = self.loop.call_later(seconds, self.transport.close)

    def _end_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def uvicorn_config(app: ASGIApp, settings: Settings, *, host: str, port: int) -> uvicorn.Config:
    """A server that stops ends its open calls after `soft_shutdown_s`."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http=LimitedRequests,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=round(settings.soft_shutdown_s),
    )


class Server(uvicorn.Server):
    """Tells the application when it begins to stop, so that the calls that wait are answered."""

    def __init__(self, app: FastAPI, settings: Settings, *, host: str, port: int) -> None:
        super().__init__(uvicorn_config(app, settings, host=host, port=port))
        self._closing = app.state.closing

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._closing.begin()
        await super().shutdown(sockets)


def serve(create_app: Callable[[Settings], FastAPI], *, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serve until SIGTERM or SIGINT.  Raises WrongDeclaration."""
    settings = load_settings()
    set_up_logging(level=settings.log_level, log_format=settings.log_format, texts=settings.log_texts)
    Server(create_app(settings), settings, host=host, port=port).run()
