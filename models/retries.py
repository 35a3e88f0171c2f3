"""Calls that are repeated while their failure may pass."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from math import inf
from typing import TypeVar

Made = TypeVar("Made")
Pause = Callable[[Exception], float | None]
"""The seconds before the next attempt; None if there is none."""


def retried(do: Callable[[], Made], *errors: type[Exception], pause_s: Pause, for_s: float = inf) -> Made:
    """Call `do` until it raises none of `errors`.  The last error is raised if `pause_s` gives None, or a time that ends
    after `for_s` seconds."""
    ends_at_s = time.monotonic() + for_s
    while True:
        try:
            return do()
        except errors as error:
            wait_s = _wait_s(error, pause_s, ends_at_s)
        time.sleep(wait_s)


async def retried_on_loop(
    do: Callable[[], Awaitable[Made]], *errors: type[Exception], pause_s: Pause, for_s: float = inf
) -> Made:
    """`retried` on an event loop."""
    ends_at_s = time.monotonic() + for_s
    while True:
        try:
            return await do()
        except errors as error:
            wait_s = _wait_s(error, pause_s, ends_at_s)
        await asyncio.sleep(wait_s)


def pauses(*seconds: float) -> Pause:
    remaining_s = iter(seconds)
    return lambda _: next(remaining_s, None)


def _wait_s(error: Exception, pause_s: Pause, ends_at_s: float) -> float:
    wait_s = pause_s(error)
    if wait_s is None or time.monotonic() + wait_s > ends_at_s:
        raise error
    return wait_s
