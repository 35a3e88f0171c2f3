"""An HTTP server whose answers have no end, or are not what was asked for."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from tests.support.servers.local_http import LocalHttp, QuietHandler

Answer = Callable[["Handler"], None]
OK = b"HTTP/1.1 200 OK\r\n"
MEGABYTE = 1 << 20


class HostileServer(LocalHttp):
    """Answers each request with `answer`; `requests` is the number of requests."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests = 0
        super().__init__(Handler)


class Handler(QuietHandler):
    owner: HostileServer

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.owner.requests += 1
        self.close_connection = True
        with suppress(ConnectionError):
            self.owner.answer(self)


def says(status: int, body: bytes = b"", **headers: str) -> Answer:
    return lambda handler: handler.send(status, body, headers)


def repeats(begin: bytes, piece: bytes, every_s: float = 0) -> Answer:
    """Sends `piece` until the caller closes the connection."""

    def answer(handler: Handler) -> None:
        handler.wfile.write(begin)
        while True:
            handler.wfile.write(piece)
            time.sleep(every_s)

    return answer


def a_gigabyte_in_a_megabyte(handler: Handler) -> None:
    handler.send(200, _gigabyte(), {"content-encoding": "gzip"})


@cache
def _gigabyte() -> bytes:
    """A gigabyte of zeros in gzip, as 64 equal blocks that do not refer to each other."""
    packing = zlib.compressobj(wbits=31)
    first, block = (
        packing.compress(bytes(16 * MEGABYTE)) + packing.flush(zlib.Z_FULL_FLUSH) for _ in range(2)
    )
    return first + block * 63
