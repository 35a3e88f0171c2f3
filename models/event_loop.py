"""The process's one event loop, in its own thread, which never stops.

gRPC needs both: with a second loop it prints tracebacks, and if a loop stops during calls it aborts the process.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def running_loop() -> asyncio.AbstractEventLoop:
    """The loop, started at first use."""
    global _loop
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="servers", daemon=True).start()
        return _loop


def started_loop() -> asyncio.AbstractEventLoop | None:
    """The loop if there is one.  It takes no lock, which the thread of a finalizer may hold."""
    return _loop


async def together(work: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """The results in order.  The first failure ends all other work, and is raised when that has ended."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


class PerLoop(Generic[_T]):
    """A client of a server for the running loop, made at first use: a forked child has another loop."""

    def __init__(self, make: Callable[[], _T], end: Callable[[_T], Coroutine[Any, Any, object]]) -> None:
        self._make, self._end = make, end
        self._made: dict[asyncio.AbstractEventLoop, _T] = {}

    def get(self) -> _T:
        """Call it on the loop.  Raises what `make` raises."""
        loop = asyncio.get_running_loop()
        if loop not in self._made:
            self._made[loop] = self._make()
        return self._made[loop]

    def close(self) -> None:
        """Call it outside of the loop."""
        while self._made:
            loop, made = self._made.popitem()
            if loop is _loop:
                asyncio.run_coroutine_threadsafe(self._end(made), loop).result(1.0)


def _begin_anew() -> None:
    """A forked child does not have the thread, and its lock may be held by a thread that it does not have."""
    global _lock, _loop
    _lock, _loop = threading.Lock(), None


os.register_at_fork(after_in_child=_begin_anew)
