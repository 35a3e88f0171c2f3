"""The connections of an event loop: redis-py's pool for commands, and one for what is announced.

One task reads the announcements of all waiting calls.  After a lost connection the task subscribes again to all that is
waited for, and has each waiting call look for its result once, since it may have missed the announcement.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar, cast

from redis.asyncio import Redis
from redis.asyncio.connection import ConnectionPool
from redis.commands.core import AsyncScript
from redis.exceptions import RedisError

from chorale_client.client import RECONNECT_S
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


class Listener:
    """One waiting call.  `is_accepted`: the request may have ended before the subscription."""

    def __init__(self, *, is_accepted: bool) -> None:
        self.result: bytes | None = None
        """The announced result."""
        self.must_read = False
        """Whether the end may have come before the subscription."""
        self._is_accepted = is_accepted
        self._woken = asyncio.Event()

    def set_accepted(self) -> None:
        """The request was accepted; if the subscription is only confirmed after this, it may miss the end."""
        self._is_accepted = True

    async def wait(self, until_s: float) -> None:
        """Wait until there is a result, the call has to look, or the event loop's clock shows `until_s`."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until_s):
                while self.result is None and not self.must_read:
                    self._woken.clear()
                    await self._woken.wait()

    def read_if_accepted(self) -> None:
        """Have the call look for its result, if its request may have ended."""
        self.must_read = self._is_accepted
        self._woken.set()

    def set_result(self, result: bytes) -> None:
        self.result = result
        self._woken.set()


class Announcements:
    """Belongs to one event loop."""

    def __init__(self, pool: ConnectionPool) -> None:
        # A subscriber may hear nothing for hours.
        kwargs = {**pool.connection_kwargs, "socket_timeout": None}
        self._connection: Any = pool.connection_class(**kwargs)
        self._listeners: dict[bytes, list[Listener]] = {}
        self._subscribed: set[bytes] = set()
        """The channels that the server has confirmed."""
        self._requested: set[bytes] = set()
        """The channels for which SUBSCRIBE was sent on this connection."""
        self._is_ready = False
        """Whether the connection is open."""
        self._writing: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None

    @contextmanager
    def listening(self, name: str, *, is_accepted: bool = False) -> Iterator[Listener]:
        """Subscribes to a channel.  The subscription goes out with the next turn of the event loop."""
        channel, listener = name.encode(), Listener(is_accepted=is_accepted)
        self._listeners.setdefault(channel, []).append(listener)
        if channel in self._subscribed:
            listener.read_if_accepted()
        self._change()
        try:
            yield listener
        finally:
            listeners = self._listeners[channel]
            listeners.remove(listener)
            if not listeners:
                del self._listeners[channel]
                self._change()

    async def renew(self) -> None:
        """Drop the connection, which has missed an announcement; the reading task makes a new one."""
        await self._connection.disconnect(nowait=True)

    async def close(self) -> None:
        """Disconnect.  Every waiting call has to look for its result itself."""
        # The cancelled reading task would disconnect without waiting: over TLS the socket could outlive the event loop.
        with suppress(RedisError):  # a server that is silent
            await self._connection.disconnect()
        for task in (self._writing, self._reading):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        for listener in itertools.chain(*self._listeners.values()):
            listener.read_if_accepted()

    def _change(self) -> None:
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read(), name="chorale-announcements")
        elif self._writing is None and self._is_ready:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._is_ready:
                new, gone = self._listeners.keys() - self._requested, self._requested - self._listeners.keys()
                if not new and not gone:
                    return
                self._requested = set(self._listeners)
                self._subscribed -= gone
                commands = [("UNSUBSCRIBE", *gone)] * bool(gone) + [("SUBSCRIBE", *new)] * bool(new)
                packed = self._connection.pack_commands(commands)
                await self._connection.send_packed_command(packed, check_health=False)
        except (RedisError, OSError):
            await self._connection.disconnect(nowait=True)  # the reading task connects again
        finally:
            self._writing = None

    async def _read(self) -> None:
        try:
            while self._listeners or self._connection.is_connected:
                try:
                    await self._connection.connect()
                    self._is_ready = True
                    await self._write()
                    while True:
                        self._receive(await self._connection.read_response())
                except (RedisError, OSError):
                    self._is_ready = False
                    await self._connection.disconnect(nowait=True)
                    self._requested.clear()
                    self._subscribed.clear()
                    await asyncio.sleep(RECONNECT_S)
        finally:
            self._reading = None

    def _receive(self, message: Sequence[Any]) -> None:
        kind, channel, data = message
        if kind == b"subscribe" and channel in self._requested:
            self._subscribed.add(channel)
            for listener in self._listeners.get(channel, ()):
                listener.read_if_accepted()
        elif kind == b"message":
            for listener in self._listeners.get(channel, ()):
                listener.set_result(data)
