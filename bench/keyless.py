"""Searches over HTTP beside 16 callers without a key, each of whom sends the largest body again and again."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from bench.timing import Ask, alone_and_beside

CALLERS = 16
BODY_BYTES = 32_000_000
PIECE = b"[" * 65_536
HEAD = (
    "POST /v1/searches HTTP/1.1\r\nHost: api\r\nContent-Type: application/json\r\n"
    f"Content-Length: {BODY_BYTES}\r\n\r\n"
).encode()


def compare(
    ask: Ask, texts: Sequence[str], *, port: int, progress: Callable[[str], object]
) -> dict[str, Any]:
    """The times of searches, one in flight, alone and beside these callers, in turns."""
    return alone_and_beside(
        ask, texts, lambda: attacking(port), {"p50": 0.5, "p95": 0.95}, in_flight=1, progress=progress
    )


@contextmanager
def attacking(port: int) -> Iterator[None]:
    """A process of its own attacks while the block runs, with the processor's time that the service leaves."""
    attackers = subprocess.Popen([sys.executable, "-m", "bench.keyless", str(port)], stdin=subprocess.PIPE)
    try:
        yield
    finally:
        attackers.kill()
        attackers.communicate()


def _attack(port: int) -> None:
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(HEAD)
            for _ in range(BODY_BYTES // len(PIECE)):
                connection.sendall(PIECE)


if __name__ == "__main__":
    os.nice(19)
    for _ in range(CALLERS):
        threading.Thread(target=_attack, args=(int(sys.argv[1]),), daemon=True).start()
    sys.stdin.read()
