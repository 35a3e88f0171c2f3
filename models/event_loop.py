"""The process's one event loop, in its own thread, which never stops.

gRPC needs both: with a second loop it prints tracebacks, and if a loop stops during calls it aborts the process.
"""

from __future__ import annotations

import asyncio
import os
import threading

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


def _begin_anew() -> None:
    """A forked child does not have the thread, and its lock may be held by a thread that it does not have."""
    global _lock, _loop
    _lock, _loop = threading.Lock(), None


os.register_at_fork(after_in_child=_begin_anew)
