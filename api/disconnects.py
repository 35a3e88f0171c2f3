"""Callers that go away while they wait."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request

T = TypeVar("T")


class CallerGone(Exception):
    """Nobody reads the response any more."""


async def unless_gone(request: Request, doing: Coroutine[Any, Any, T]) -> T:
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
