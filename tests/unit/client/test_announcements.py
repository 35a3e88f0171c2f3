"""The connection on which a client with an event loop hears of ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from chorale_client.asynchronous.announcements import Announcements
from redis.asyncio import ConnectionPool

LIMIT_S = 10


def test_closing_ends_a_task_that_swallows_its_first_cancellation() -> None:
    async def swallowing() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await asyncio.sleep(60)

    async def closed() -> bool:
        announcements = Announcements(ConnectionPool())
        announcements._reading = reading = asyncio.create_task(swallowing())
        await asyncio.sleep(0)
        await asyncio.wait_for(announcements.close(), LIMIT_S)
        return reading.cancelled()

    assert asyncio.run(closed())
