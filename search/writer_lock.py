"""One writer for each namespace: a file lock, which the kernel releases when its holder dies."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models.errors import WriterBusy

_POLL_S = 0.005


class WriterLock:
    """Excludes other processes and threads; the thread that holds it may take it again."""

    def __init__(self, path: Path, subject: str) -> None:
        self._path = path
        self._subject = subject
        self._thread = threading.RLock()
        self._depth = 0

    @contextmanager
    def held(self, *, wait_s: float) -> Iterator[None]:
        """Raises WriterBusy if the lock is not free within `wait_s` seconds."""
        deadline = time.monotonic() + wait_s
        if not self._thread.acquire(timeout=max(wait_s, 0)):
            raise busy(self._subject)
        self._depth += 1
        try:
            if self._depth > 1:
                yield
                return
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                self._lock(descriptor, deadline)
                yield
            finally:
                os.close(descriptor)
        finally:
            self._depth -= 1
            self._thread.release()

    def _lock(self, descriptor: int, deadline: float) -> None:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise busy(self._subject) from None
                time.sleep(_POLL_S)


def busy(subject: str) -> WriterBusy:
    return WriterBusy(f"{subject} is being written by another process; wait for it or stop it")
