"""The process's one event loop, in its own thread, which never stops.  gRPC needs both: with a second loop it
prints tracebacks, and if a loop stops during calls it aborts the process."""

from __future__ import annotations

import asyncio
import os
import threading


class _Kept:
    """Starts the loop at first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="weaviate", daemon=True).start()
            return self._loop


_kept = _Kept()


def running_loop() -> asyncio.AbstractEventLoop:
    return _kept.running()


def _begin_anew() -> None:
    """A forked child does not have the thread."""
    global _kept
    _kept = _Kept()


os.register_at_fork(after_in_child=_begin_anew)
