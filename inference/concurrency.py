"""A value that the first thread makes, and a thread for work that may hang."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class LazyValue(Generic[T]):
    """A call makes the value, or returns the one made before.  After an exception the next call tries again."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: list[T] = []

    def __call__(self) -> T:
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]


class JobThread:
    """Runs one job at a time on a daemon thread, so a job that never ends does not keep the process alive."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._idle = threading.Lock()
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, job: Callable[[], None], *, limit_s: float | None = None) -> bool:
        """Wait at most `limit_s` seconds for the job; raises the job's exception if it ended in time.

        Returns False if an earlier job left no time to start it.
        """
        until = None if limit_s is None else time.monotonic() + limit_s
        if not self._idle.acquire(timeout=-1 if limit_s is None else max(0.0, limit_s)):
            return False
        ended = threading.Event()
        raised: list[BaseException] = []

        def whole() -> None:
            try:
                job()
            except BaseException as error:  # raised in the waiting thread
                raised.append(error)
            finally:
                self._idle.release()
                ended.set()

        # A thread that was started before a fork does not exist after it.
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self._jobs.put(whole)
        if ended.wait(None if until is None else max(0.0, until - time.monotonic())) and raised:
            raise raised[0]
        return True

    def _work(self) -> None:
        while True:
            self._jobs.get()()
