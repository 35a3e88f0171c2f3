"""A real HTTP server with a JSON search endpoint, and every way in which such servers fail."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Answer = Callable[["Handler"], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: Any


class SearchServer:
    """Answers on a port of its own; `answer` may be replaced at any time."""

    def __init__(self) -> None:
        self.answer: Answer = says({"items": []})
        self.asked: list[Asked] = []
        self.connections = 0
        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.search = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/search"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    search: SearchServer
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Callers that went away in the middle are what these tests are about."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.search.connections += 1

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        search = self.server.search
        headers = {name.lower(): value for name, value in self.headers.items()}
        search.asked.append(Asked(self.command, self.path, headers, json.loads(raw) if raw else None))
        with suppress(ConnectionError):
            search.answer(self)

    def send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


def says(answer: Any) -> Answer:
    return lambda handler: handler.send(200, json.dumps(answer).encode())


def sends(status: int, body: bytes = b"", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.send(status, body, named)


def sleeps(seconds: float) -> Answer:
    return lambda _: time.sleep(seconds)


def drips(pieces: int, every_s: float, *, headers: bool) -> Answer:
    """Never silent for long and never done: in its headers, or in a body without a length."""

    def answer(handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n")
        handler.wfile.write(b"x: " if headers else b"\r\n[")
        for _ in range(pieces):
            handler.wfile.write(b" ")
            time.sleep(every_s)

    return answer


def cuts_off(body: bytes, *, after: int) -> Answer:
    def answer(handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body[:after])
        handler.close_connection = True

    return answer


def hangs_up(handler: Handler) -> None:
    handler.close_connection = True


def writes(raw: bytes) -> Answer:
    def answer(handler: Handler) -> None:
        handler.wfile.write(raw)
        handler.close_connection = True

    return answer
