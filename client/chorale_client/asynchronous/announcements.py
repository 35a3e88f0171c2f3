"""One connection of an event loop for all that is announced.

One task reads the announcements of all waiting calls.  After a lost connection the task subscribes again to all that is
waited for, and has each waiting call look for its result once, since it may have missed the announcement.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from redis.asyncio.connection import ConnectionPool
from redis.exceptions import RedisError

from chorale_client.client import RECONNECT_S
from chorale_client.connections import idle


class Listener:
    """One waiting call.  `is_accepted`: the request may have ended before the subscription."""

    def __init__(self, *, is_accepted: bool) -> None:
        self.result: bytes | None = None
        """The announced result."""
        self.must_read = False
        """Whether the end may have come before the subscription."""
        self.is_unsure = False
        """Whether the subscription was confirmed before the acceptance was known.  Very rarely the end has come before the subscription."""
        self.is_lost = False
        """Whether the connection was lost, so that a new primary may lack the request."""
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
        self.is_unsure = not self._is_accepted
        self._woken.set()

    def set_result(self, result: bytes) -> None:
        self.result = result
        self._woken.set()


CANCELLED_AGAIN_S = 0.1
"""A task that has not ended this time after its cancellation is cancelled again."""


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
        self._sent_at_s: float | None = None
        """When the oldest command without a reply was sent."""
        self._received_at_s = 0.0
        self._watching: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None

    @contextmanager
    def listening(self, name: str, *, is_accepted: bool = False) -> Iterator[Listener]:
        """Subscribes to a channel.  The subscription goes out with the next turn of the event loop."""
        loop = asyncio.get_running_loop()
        channel, listener = name.encode(), Listener(is_accepted=is_accepted)
        self._listeners.setdefault(channel, []).append(listener)
        if channel in self._subscribed:
            listener.read_if_accepted()
        self._change()
        try:
            yield listener
        finally:
            # The garbage collector ends an abandoned reader of events, in any thread.
            if asyncio._get_running_loop() is loop:
                self._leave(channel, listener)
            else:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._leave, channel, listener)

    def _leave(self, channel: bytes, listener: Listener) -> None:
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
        self._is_ready = False
        # The cancelled reading task would disconnect without waiting: over TLS the socket could outlive the event loop.
        with suppress(RedisError):  # a server that is silent
            await self._connection.disconnect()
        for task in (self._watching, self._writing, self._reading):
            # Python 3.11 may swallow a cancellation within `asyncio.wait_for`, with which redis-py writes.
            while task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task], timeout=CANCELLED_AGAIN_S)
        for listener in itertools.chain(*self._listeners.values()):
            listener.read_if_accepted()

    def _change(self) -> None:
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read(), name="chorale-announcements")
        elif self._writing is None and self._is_ready:
            self._writing = asyncio.get_running_loop().create_task(self._write())
        if self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        """While somebody listens, ask a server that is silent, and drop a connection on which it does not answer."""
        try:
            while self._listeners:
                await asyncio.sleep(idle.ANSWERS_WITHIN_S / 2)
                # The reading task sees first what came while the event loop was busy.
                for _ in range(3):
                    await asyncio.sleep(0)
                if self._is_ready:
                    await self._check()
        finally:
            self._watching = None

    async def _check(self) -> None:
        silent_s = idle.now_s() - self._received_at_s
        unanswered_s = asyncio.get_running_loop().time() - (self._sent_at_s or math.inf)
        try:
            if unanswered_s > idle.ANSWERS_WITHIN_S:
                await self._connection.disconnect(nowait=True)
            elif silent_s > idle.IDLE_S and self._sent_at_s is None:
                await self._send_commands([("PING",)])
        except (RedisError, OSError):
            await self._connection.disconnect(nowait=True)  # the reading task connects again

    async def _send_commands(self, commands: Sequence[tuple[Any, ...]]) -> None:
        if self._sent_at_s is None:
            self._sent_at_s = asyncio.get_running_loop().time()
        packed = self._connection.pack_commands(commands)
        await self._connection.send_packed_command(packed, check_health=False)

    async def _write(self) -> None:
        try:
            while self._is_ready:
                new, gone = self._listeners.keys() - self._requested, self._requested - self._listeners.keys()
                if not new and not gone:
                    return
                self._requested = set(self._listeners)
                self._subscribed -= gone
                commands = [("UNSUBSCRIBE", *gone)] * bool(gone) + [("SUBSCRIBE", *new)] * bool(new)
                await self._send_commands(commands)
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
                    self._sent_at_s = None
                    for listener in itertools.chain(*self._listeners.values()):
                        listener.is_lost = True
                    await asyncio.sleep(RECONNECT_S)
        finally:
            self._reading = None

    def _receive(self, message: Sequence[Any]) -> None:
        self._received_at_s, self._sent_at_s = idle.now_s(), None
        if isinstance(message, bytes) or len(message) == 2:
            return  # the answer to PING
        kind, channel, data = message
        if kind == b"subscribe" and channel in self._requested:
            self._subscribed.add(channel)
            for listener in self._listeners.get(channel, ()):
                listener.read_if_accepted()
        elif kind == b"message":
            for listener in self._listeners.get(channel, ()):
                listener.set_result(data)
