"""The connection on which a client with an event loop hears of ends."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

import pytest
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


def test_a_reader_that_another_thread_ends_leaves_its_channel_in_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faults: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", faults.append)

    async def loops() -> list[object]:
        announcements = Announcements(ConnectionPool())
        seen: list[object] = []
        monkeypatch.setattr(announcements, "_change", lambda: seen.append(asyncio.get_running_loop()))
        readers = [announcements.listening("x")]
        readers[0].__enter__()
        await asyncio.to_thread(readers.clear)  # as the garbage collector does
        await asyncio.sleep(0)
        assert not announcements._listeners
        return [loop is asyncio.get_running_loop() for loop in seen]

    assert asyncio.run(loops()) == [True, True]
    assert not faults
