"""Waits that end early: the caller goes away, or the process stops and the caller asks another process for the rest; and
the parts of a response, with None in between while no part comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from chorale_client.errors import ServiceUnavailable
from starlette.requests import Request

T = TypeVar("T")


class CallerGone(Exception):
    """Nobody reads the response any more."""


async def unless_gone(request: Request, doing: Awaitable[T]) -> T:
    """The result of `doing`.  If the caller closes the connection first, cancels `doing` and raises CallerGone.

    The body of the request must have been read.
    """
    work = asyncio.ensure_future(doing)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise CallerGone
        return work.result()
    finally:
        gone.cancel()
        if not work.done():
            work.cancel()
            await asyncio.wait({work})


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def with_pauses(
    parts: AsyncIterator[T],
    every_s: float,
    wait: Callable[[Awaitable[Any]], Awaitable[Any]] = lambda waiting: waiting,
) -> AsyncGenerator[T | None, None]:
    """The parts as they come, and None whenever `every_s` seconds have passed without one, or `wait` ends early."""
    next_part = asyncio.ensure_future(anext(parts, None))
    try:
        while True:
            await wait(asyncio.wait({next_part}, timeout=every_s))
            if not next_part.done():
                yield None
            elif (part := next_part.result()) is None:
                return
            else:
                yield part
                next_part = asyncio.ensure_future(anext(parts, None))
    finally:
        next_part.cancel()


REPLY_S, GRACE_S = 2.0, 1.0
"""While Redis is silent, a call that waits ends at most GRACE_S after its wait, and every other call within REPLY_S."""


@asynccontextmanager
async def ending_in_time(wait_s: float) -> AsyncIterator[None]:
    """Raises ServiceUnavailable if the block takes longer than REPLY_S and longer than `wait_s` and GRACE_S together."""
    try:
        async with asyncio.timeout(max(REPLY_S, wait_s + GRACE_S)):
            yield
    except TimeoutError:
        raise ServiceUnavailable("Redis does not answer: no reply in time") from None


class Closing:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self.has_begun = False
        self._waits: set[asyncio.Timeout] = set()

    def begin(self) -> None:
        """End every wait, also those that begin later."""
        self.has_begun = True
        for wait in self._waits:
            wait.reschedule(0)

    async def unless_begun(self, waiting: Awaitable[T]) -> T | None:
        """The result of `waiting`.  If the process begins to end first, `waiting` is cancelled, and the result is None."""
        try:
            async with asyncio.timeout(0 if self.has_begun else None) as wait:
                self._waits.add(wait)
                return await waiting
        except TimeoutError:
            if not wait.expired():
                raise
            return None
        finally:
            self._waits.discard(wait)
