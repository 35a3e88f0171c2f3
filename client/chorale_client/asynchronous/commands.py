"""The commands of an event loop: redis-py's pool sends them, and an exchange that was begun is finished."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from redis.asyncio import Redis
from redis.commands.core import AsyncScript
from redis.exceptions import RedisError

from chorale_client.sans_io import Exchange, RoundTrip, Script
from chorale_client.scripts import script_text

T = TypeVar("T")


class Commands:
    """Belongs to one event loop.  Every method raises RedisError."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._scripts: dict[str, AsyncScript] = {}
        self._under_way: set[asyncio.Task[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    async def connect(self) -> None:
        """Returns when a connection is open."""
        if not self._is_closed:
            pool = self._client.connection_pool
            await pool.release(await pool.get_connection())

    async def run_exchange(self, steps: Exchange[T], when_late: Callable[[T], None] | None = None) -> T:
        """The outcome of the steps.  If the caller is cancelled, they go on, and `when_late` gets the outcome."""
        task = self.begin(steps)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if (report := when_late) is not None:
                task.add_done_callback(lambda done: None if done.exception() else report(done.result()))
            raise

    def begin(self, steps: Exchange[T]) -> asyncio.Task[T]:
        """Run the steps in a task of their own; nobody has to wait for it.  Raises RuntimeError in another event loop."""
        loop = asyncio.get_running_loop()
        self._loop = self._loop or loop
        if loop is not self._loop:
            raise RuntimeError(
                "an AsyncChorale belongs to the event loop in which it was first used; make one for each event loop"
            )
        task = loop.create_task(self._run(steps))
        self._under_way.add(task)
        task.add_done_callback(self._forget)
        return task

    async def close(self) -> None:
        """Wait until the commands are sent.  Whoever sends more gets a RedisError."""
        while self._under_way:
            await asyncio.wait(self._under_way)
        self._is_closed = True

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # a caller that was cancelled does not read it

    async def _run(self, steps: Exchange[T]) -> T:
        try:
            trip = next(steps)
            while True:
                try:
                    replies = await self._send(trip)
                except RedisError as error:
                    trip = steps.throw(error)
                else:
                    trip = steps.send(replies)
        except StopIteration as end:
            return cast("T", end.value)

    async def _send(self, trip: RoundTrip) -> Sequence[Any]:
        if self._is_closed:
            raise RedisError("the client is closed")
        if len(trip) == 1 and isinstance(script := trip[0], Script):
            if script.name not in self._scripts:
                self._scripts[script.name] = self._client.register_script(script_text(script.name))
            return [await self._scripts[script.name](list(script.keys), list(script.args))]
        async with self._client.pipeline(transaction=False) as pipeline:
            for words in trip:
                pipeline.execute_command(*cast("tuple[Any, ...]", words))
            return cast("Sequence[Any]", await pipeline.execute())
