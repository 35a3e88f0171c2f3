"""The connections of an event loop for commands: redis-py's pool."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, TypeVar, cast

from redis.asyncio import Redis
from redis.commands.core import AsyncScript
from redis.exceptions import RedisError

from chorale_client.connections import idle
from chorale_client.sans_io import TRANSIENT, Exchange, RoundTrip, Script
from chorale_client.scripts import script_text

T = TypeVar("T")


def checking(kind: Any) -> Any:
    """The class of connections `kind`, which asks an idle server for a sign of life before each command."""

    class Checked(kind):  # type: ignore[misc]  # TCP, TLS or unix socket, as the address says
        _received_at_s = 0.0

        async def _connect(self) -> None:
            await super()._connect()
            self._received_at_s = idle.now_s()

        async def check_health(self) -> None:
            """redis-py calls it before a command is sent."""
            if idle.now_s() - self._received_at_s < idle.IDLE_S:
                return
            try:
                async with asyncio.timeout(idle.ANSWERS_WITHIN_S):
                    await self.send_command("PING", check_health=False)
                    await self.read_response()
            except (RedisError, OSError):
                await self.disconnect(nowait=True)
                await self.connect()

        async def read_response(self, *args: Any, **options: Any) -> Any:
            response = await super().read_response(*args, **options)
            self._received_at_s = idle.now_s()
            return response

    return Checked


def _ping() -> Exchange[None]:
    yield [("PING",)]


_ends_at_s: ContextVar[float] = ContextVar("ends_at_s", default=math.inf)


@asynccontextmanager
async def until(moment_s: float) -> AsyncIterator[None]:
    """As `asyncio.timeout_at`; commands that are sent in it know how much time their caller has."""
    token = _ends_at_s.set(moment_s)
    try:
        async with asyncio.timeout_at(moment_s):
            yield
    finally:
        _ends_at_s.reset(token)


class Commands:
    """Belongs to one event loop.  Every method raises RedisError.

    A command that gets no answer in `attempt_s`, or in half of its caller's time, is sent again on a new connection.
    """

    def __init__(self, client: Redis, *, attempt_s: float) -> None:
        self._client = client
        self._attempt_s = attempt_s
        self._received_at_s = -math.inf
        self._scripts: dict[str, AsyncScript] = {}
        self._under_way: set[asyncio.Task[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    async def connect(self) -> None:
        """Returns when a connection is open."""
        if idle.now_s() - self._received_at_s > idle.IDLE_S:
            # The ping runs in a task of its own, since redis-py writes under asyncio.wait_for, which loses cancellations in Python 3.11.
            await self.run_exchange(_ping())

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
        loop = asyncio.get_running_loop()
        half_s = (_ends_at_s.get() - loop.time()) / 2
        try:
            async with asyncio.timeout(min(self._attempt_s, half_s)):
                replies = await self._send_once(trip)
        except (*TRANSIENT, TimeoutError):
            replies = await self._send_once(trip)
        self._received_at_s = idle.now_s()
        return replies

    async def _send_once(self, trip: RoundTrip) -> Sequence[Any]:
        if self._is_closed:
            raise RedisError("the client is closed")
        if len(trip) == 1 and isinstance(script := trip[0], Script):
            return [await self._run_script(script, self._client)]
        async with self._client.pipeline(transaction=False) as pipeline:
            for command in trip:
                if isinstance(command, Script):
                    await self._run_script(command, pipeline)
                else:
                    pipeline.execute_command(*command)
            return cast("Sequence[Any]", await pipeline.execute())

    async def _run_script(self, script: Script, client: Redis) -> Any:
        if script.name not in self._scripts:
            self._scripts[script.name] = self._client.register_script(script_text(script.name))
        return await self._scripts[script.name](list(script.keys), list(script.args), client=client)
