"""The end of the process: no call waits longer."""

from __future__ import annotations

import asyncio

import pytest

from api.waiting import Closing


def test_waits_end_when_the_process_does_and_those_that_begin_later_do_not_begin() -> None:
    async def run() -> list[object]:
        closing = Closing()
        waits = [asyncio.create_task(closing.unless_begun(asyncio.Event().wait())) for _ in range(3)]
        await asyncio.sleep(0)
        closing.begin()
        async with asyncio.timeout(10):
            return [*await asyncio.gather(*waits), await closing.unless_begun(asyncio.Event().wait())]

    assert asyncio.run(run()) == [None] * 4


def test_a_time_limit_of_what_is_waited_for_stays_an_error() -> None:
    async def late() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        asyncio.run(Closing().unless_begun(late()))


def test_the_caller_s_own_end_is_not_swallowed() -> None:
    async def run() -> None:
        wait = asyncio.create_task(Closing().unless_begun(asyncio.Event().wait()))
        await asyncio.sleep(0)
        wait.cancel()
        await wait

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())
