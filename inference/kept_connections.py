"""Connections to an endpoint that stay open between calls, since a new one costs several round trips."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import httpx2

T = TypeVar("T")


class Connections:
    """An event loop and a client, whose connections stay open while the loop does not run.  For one call at a time."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        # Not `asyncio.Runner`, which would wait for a name server that hangs.
        self._loop = asyncio.new_event_loop()
        self._client = client

    def run(self, call: Callable[[httpx2.AsyncClient], Coroutine[Any, Any, T]]) -> T:
        task = self._loop.create_task(call(self._client))
        try:
            return self._loop.run_until_complete(task)
        finally:
            if not task.done():  # a signal's exception ended the loop: the requests still end
                task.cancel()
                with suppress(BaseException):
                    self._loop.run_until_complete(task)

    def close(self) -> None:
        with suppress(Exception):
            self._loop.run_until_complete(self._client.aclose())
        self._loop.close()


class KeptConnections:
    """The connections that no call uses.  Thread-safe; a process takes none that it has from before a fork."""

    def __init__(self) -> None:
        # By process.  Those of the parent are neither used nor closed in its children: the sockets are the same.
        self._idle: dict[int, list[Connections]] = {}
        weakref.finalize(self, _close_all, self._idle)

    def take(self, new_client: Callable[[], httpx2.AsyncClient]) -> Connections:
        try:
            return self._idle[os.getpid()].pop()
        except LookupError:
            return Connections(new_client())

    def keep(self, connections: Connections) -> None:
        self._idle.setdefault(os.getpid(), []).append(connections)


def _close_all(idle: dict[int, list[Connections]]) -> None:
    for connections in idle.pop(os.getpid(), ()):
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            connections.close()
        else:  # the garbage collector runs within another loop, and a thread can run only one
            thread = threading.Thread(target=connections.close)
            thread.start()
            thread.join()
