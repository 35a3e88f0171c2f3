"""The end of the process: a call that waits is answered at once, and its caller asks another process for the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


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
