"""A real HTTP server for the chat protocol, and the ways in which such servers fail."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.support.servers.certificates import Certificate
from tests.support.servers.local_http import LocalHttp, QuietHandler

Answer = Callable[["Handler", dict[str, Any]], None]


class ChatServer(LocalHttp):
    """Answers on a port of its own; `answer` may be replaced at any time, `requests` are the bodies it was sent.

    `then` holds answers for the next requests, before `answer` is used again.
    """

    def __init__(self, usual: Answer | None = None, certificate: Certificate | None = None) -> None:
        self.usual = usual or says("A passage that answers the question.")
        self.answer: Answer = self.usual
        self.then: list[Answer] = []
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.lock = threading.Lock()
        super().__init__(Handler, certificate)

    @property
    def url(self) -> str:
        return f"{self.origin}/v1"

    @property
    def prompts(self) -> list[str]:
        return [body["messages"][0]["content"] for body in self.requests]

    @property
    def keys(self) -> list[str | None]:
        return [headers.get("authorization") for headers in self.headers]

    def forget(self) -> None:
        """Restores the initial state."""
        self.__dict__ |= {"answer": self.usual, "then": []}
        self.requests.clear()
        self.headers.clear()
        self.paths.clear()


class Handler(QuietHandler):
    owner: ChatServer

    def answer(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        chat = self.owner
        with chat.lock:
            chat.requests.append(body)
            chat.paths.append(self.path)
            chat.headers.append({name.lower(): value for name, value in self.headers.items()})
            answer = chat.then.pop(0) if chat.then else chat.answer
        with suppress(ConnectionError):
            answer(self, body)

    def send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        super().send(status, body, {"Content-Type": "application/json", **(headers or {})})


def completion(text: str | None) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return json.dumps({"object": "chat.completion", "choices": [choice]}).encode()


def says(text: str | None) -> Answer:
    return lambda handler, _: handler.send(200, completion(text))


def sends(status: int, body: bytes = b"{}", **headers: str) -> Answer:
    """Sends an answer; underscores in header names stand for dashes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler, _: handler.send(status, body, named)


def after(seconds: float, answer: Answer) -> Answer:
    def late(handler: Handler, body: dict[str, Any]) -> None:
        time.sleep(seconds)
        answer(handler, body)

    return late


def cut_off(handler: Handler, _: dict[str, Any]) -> None:
    """Sends half of the announced length, then closes the connection."""
    body = completion("never read to its end")
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body[: len(body) // 2])
    handler.close_connection = True


def pours(status: int, length: int, sent: list[int]) -> Answer:
    """Sends so many bytes without a length; `sent` gets the number of bytes that were taken."""

    def answer(handler: Handler, _: dict[str, Any]) -> None:
        handler.send_response(status)
        handler.end_headers()
        handler.close_connection = True
        sent.append(0)
        while sent[-1] < length:
            sent[-1] += handler.wfile.write(b"x" * 65_536)

    return answer


def drips(handler: Handler, body: dict[str, Any]) -> None:
    """Sends a space every 50 ms, so that no single read waits for long."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    for _ in range(600):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.05)


def drips_headers(handler: Handler, body: dict[str, Any], *, seconds: float) -> None:
    """Does the same within a header, where a caller cannot look at the clock."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        handler.wfile.write(b"x")
        handler.wfile.flush()
        time.sleep(0.05)
    handler.close_connection = True
