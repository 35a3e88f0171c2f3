"""A real HTTP server with a JSON search endpoint, and the ways in which such servers fail."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tests.support.servers.certificates import Certificate
from tests.support.servers.local_http import LocalHttp, QuietHandler

Answer = Callable[["Handler"], None]


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request as the server received it."""

    method: str
    target: str
    headers: dict[str, str]
    body: Any


class SearchServer(LocalHttp):
    """Answers on a port of its own; `answer` may be replaced at any time."""

    def __init__(self, certificate: Certificate | None = None) -> None:
        self.answer: Answer = says({"items": []})
        self.requests: list[ReceivedRequest] = []
        self.connections = 0
        super().__init__(Handler, certificate)

    @property
    def url(self) -> str:
        return f"{self.origin}/search"


class Handler(QuietHandler):
    owner: SearchServer

    def setup(self) -> None:
        super().setup()
        self.owner.connections += 1

    def answer(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        search = self.owner
        headers = {name.lower(): value for name, value in self.headers.items()}
        search.requests.append(
            ReceivedRequest(self.command, self.path, headers, json.loads(raw) if raw else None)
        )
        with suppress(ConnectionError):
            search.answer(self)


def says(answer: Any) -> Answer:
    return lambda handler: handler.send(200, json.dumps(answer).encode())


def sends(status: int, body: bytes = b"", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.send(status, body, named)


def sleeps(seconds: float) -> Answer:
    return lambda _: time.sleep(seconds)


def cuts_off(body: bytes, *, after: int) -> Answer:
    def answer(handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body[:after])
        handler.close_connection = True

    return answer


def hangs_up(handler: Handler) -> None:
    handler.close_connection = True
