"""Clients of an endpoint whose connections stay open between calls, since a new one costs several round trips."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable

import httpx2

from models.event_loop import running_loop, started_loop


class IdleClients:
    """The clients that no call uses.  Thread-safe; a process takes none that it has from before a fork."""

    def __init__(self) -> None:
        # By event loop.  Those of the parent are neither used nor closed in its children: the sockets are the same.
        self._idle: dict[asyncio.AbstractEventLoop, list[httpx2.AsyncClient]] = {}
        weakref.finalize(self, _close_all, self._idle)

    def take(self, new_client: Callable[[], httpx2.AsyncClient]) -> httpx2.AsyncClient:
        try:
            return self._idle[running_loop()].pop()
        except LookupError:
            return new_client()

    def keep(self, client: httpx2.AsyncClient) -> None:
        self._idle.setdefault(running_loop(), []).append(client)


def close(client: httpx2.AsyncClient) -> None:
    asyncio.run_coroutine_threadsafe(client.aclose(), running_loop())


def _close_all(idle: dict[asyncio.AbstractEventLoop, list[httpx2.AsyncClient]]) -> None:
    if (loop := started_loop()) is not None:
        for client in idle.pop(loop, ()):
            asyncio.run_coroutine_threadsafe(client.aclose(), loop)
