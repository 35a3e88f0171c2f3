"""What the HTTP server refuses by itself: heads that a proxy could read otherwise, slow or large ones, and bodies after a refusal."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection

import httpx
import pytest

from api import serving
from tests.support.servers.http_api import HttpApi

POST = b"POST /v1/searches HTTP/1.1\r\nHost: api\r\nContent-Type: application/json\r\n"


@contextmanager
def connected(api: HttpApi) -> Iterator[socket.socket]:
    where = httpx.URL(api.origin)
    with socket.create_connection((where.host, where.port or 80), timeout=20) as connection:
        yield connection


@pytest.mark.parametrize(
    "request_bytes",
    [
        POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\n{}  ",
        POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"GET /healthz HTTP/1.1\nHost: api\n\n",
        b"GET /healthz HTTP/1.1\r\nHost: api\r\nX: y\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: api\r\nX: y\r\n z\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost : api\r\n\r\n",
    ],
    ids=[
        "length and chunks",
        "two lengths",
        "unknown coding",
        "bare LF",
        "one bare LF",
        "folded header",
        "blank",
    ],
)
def test_a_head_that_can_be_read_in_two_ways_is_refused(idle_api: HttpApi, request_bytes: bytes) -> None:
    with connected(idle_api) as connection:
        connection.sendall(request_bytes)
        assert connection.recv(1_000).startswith(b"HTTP/1.1 400 ")
        assert connection.recv(1_000) == b""


def test_a_head_that_is_too_large_is_refused(idle_api: HttpApi) -> None:
    with connected(idle_api) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: api\r\nX: " + b"x" * serving.HEAD_BYTES)
        assert connection.recv(1_000).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("begun", [b"", b"GET /healthz HTTP/1.1\r\nHost: a"], ids=["nothing", "a part"])
def test_a_connection_whose_head_does_not_arrive_in_time_is_closed(
    idle_api: HttpApi, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "HEAD_S", 0.1)
    with connected(idle_api) as connection:
        connection.sendall(begun)
        assert connection.recv(1_000) == b""


def test_a_connection_is_used_again_after_the_time_of_a_head(
    idle_api: HttpApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may take a second for a request that follows 0.4 s later.
    monkeypatch.setattr(serving, "HEAD_S", 1.5)
    where = httpx.URL(idle_api.origin)
    with closing(HTTPConnection(where.host, where.port, timeout=20)) as connection:
        connection.connect()
        socket_of_all = connection.sock
        for _ in range(4):
            time.sleep(0.4)
            connection.request("GET", "/healthz")
            response = connection.getresponse()
            assert (response.status, response.read()) == (200, b'{"status":"ok"}')
        assert connection.sock is socket_of_all


UNREAD = POST + b"Content-Length: 32000000\r\n\r\n"
"""A request that is refused for its missing key."""


def test_a_body_that_goes_on_after_the_refusal_is_cut_off(idle_api: HttpApi) -> None:
    sent, piece = 0, b"[" * 65_536
    with connected(idle_api) as connection, suppress(ConnectionError):
        connection.sendall(UNREAD)
        assert connection.recv(12) in (b"HTTP/1.1 401", b"HTTP/1.1 413")
        for _ in range(32_000_000 // len(piece)):
            connection.sendall(piece)
            sent += len(piece)
    # What is on its way lies in buffers of the two sockets.
    assert sent < 16_000_000


def test_a_refused_caller_that_sends_its_body_slowly_is_not_waited_for(
    idle_api: HttpApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "UNREAD_S", 0.1)
    with connected(idle_api) as connection:
        connection.sendall(UNREAD + b"[")
        assert connection.recv(12) in (b"HTTP/1.1 401", b"HTTP/1.1 413")
        while connection.recv(1_000):
            pass
