"""The time that one call was given, retries and pauses included."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from models.errors import StoreTimeout
from models.event_loop import running_loop

_T = TypeVar("_T")


class Deadline:
    def __init__(self, timeout_s: float, subject: str) -> None:
        """`subject` names the store in the error."""
        self.subject = subject
        self._timeout_s = timeout_s
        self._end = time.monotonic() + timeout_s

    @property
    def remaining_s(self) -> float:
        return self._end - time.monotonic()

    def check(self) -> float:
        """Seconds left; raises StoreTimeout if there are none."""
        remaining_s = self.remaining_s
        if remaining_s <= 0:
            raise self.over()
        return remaining_s

    def over(self) -> StoreTimeout:
        return StoreTimeout(f"{self.subject} did not answer within {self._timeout_s:g} s")


def on_loop(work: Coroutine[Any, Any, _T], deadline: Deadline) -> _T:
    """The result of `work` on the process's event loop, which cancels the work at the deadline; raises StoreTimeout."""

    async def limited() -> _T:
        async with asyncio.timeout(deadline.remaining_s):
            return await work

    try:
        return asyncio.run_coroutine_threadsafe(limited(), running_loop()).result()
    except TimeoutError as error:
        raise deadline.over() from error


class TimedThreads:
    """Runs calls of a client that cannot end its calls in time.  Each call has a thread, and there are as many threads as connections."""

    def __init__(self, connections: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(connections, thread_name_prefix=name)

    def run(
        self, work: Callable[[], _T], deadline: Deadline, *, give_up: Callable[[], None] = lambda: None
    ) -> _T:
        """The result of `work`; raises StoreTimeout at the deadline.  `give_up` is called if the work has begun by then."""
        answering = self._threads.submit(work)
        try:
            return answering.result(deadline.check())
        except TimeoutError:
            if answering.cancel():
                raise StoreTimeout(
                    f"no connection to {deadline.subject} came free in time: raise the store's `connections`"
                ) from None
            give_up()
            raise deadline.over() from None

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
