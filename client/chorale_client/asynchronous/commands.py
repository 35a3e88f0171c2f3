"""The connection for commands: what is asked while a round trip is under way goes out together in the next one.

A command that comes while nothing is under way goes out at once, with those of the same turn of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha1
from typing import Any, TypeVar, cast

from redis.asyncio.connection import ConnectionPool
from redis.exceptions import ConnectionError, NoScriptError, RedisError, ResponseError

from chorale_client.sans_io import Command, Exchange, RoundTrip, Script
from chorale_client.scripts import script_text

T = TypeVar("T")

MAX_BATCH = 256
"""Maximum trips that share one round trip, so that the first does not wait long for its replies."""


@dataclass(frozen=True, slots=True)
class _Pending:
    trip: RoundTrip
    replies: asyncio.Future[Sequence[Any]]
    when_late: Callable[[Sequence[Any]], None] | None


class Commands:
    """Belongs to one event loop.  Every method raises RedisError."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._connection: Any = pool.connection_class(**pool.connection_kwargs)
        self._queue: list[_Pending] = []
        self._known: set[str] = set()
        self._work: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    def send(
        self, trip: RoundTrip, when_late: Callable[[Sequence[Any]], None] | None = None
    ) -> asyncio.Future[Sequence[Any]]:
        """The replies to one trip.  `when_late` gets them if the future was cancelled before they came.

        Raises UnicodeEncodeError for a text with a lone surrogate, because it would fail all trips that go out together, and
        RuntimeError in another event loop than the first.
        """
        loop = asyncio.get_running_loop()
        self._loop = self._loop or loop
        if loop is not self._loop:
            raise RuntimeError(
                "an AsyncChorale belongs to the event loop in which it was first used; make one for each event loop"
            )
        if self._is_closed:
            raise RedisError("the client is closed")
        for word in _words_of(trip):
            if isinstance(word, str) and not word.isascii():
                word.encode()
        pending = _Pending(trip, loop.create_future(), when_late)
        self._queue.append(pending)
        if self._work is None:
            self._work = loop.create_task(self._send_all(), name="chorale-commands")
        return pending.replies

    async def connect(self) -> None:
        """Returns when the connection is open."""
        if not self._connection.is_connected:
            await self.send([("PING",)])

    async def run_exchange(self, steps: Exchange[T], when_late: Callable[[T], None] | None = None) -> T:
        """The outcome of the steps.  `when_late` gets it if the caller was cancelled during the last trip."""

        def late(replies: Sequence[Any]) -> None:
            try:
                steps.send(replies)
            except StopIteration as end:
                if when_late is not None:
                    when_late(end.value)

        try:
            trip = next(steps)
            while True:
                try:
                    replying = self.send(trip, late)
                    replies = await replying
                except RedisError as error:
                    trip = steps.throw(error)
                except asyncio.CancelledError:
                    # The replies may have come before this task had its turn.
                    if replying.done() and not replying.cancelled() and replying.exception() is None:
                        late(replying.result())
                    raise
                else:
                    trip = steps.send(replies)
        except StopIteration as end:
            return cast("T", end.value)

    def begin(self, steps: Exchange[Any]) -> None:
        """Send the first trip of the steps without waiting for the replies, which are dropped."""
        self.send(next(steps)).add_done_callback(lambda future: future.cancelled() or future.exception())

    async def close(self) -> None:
        """Wait until the commands are sent, and disconnect.  Whoever sends more gets a RedisError."""
        while self._work is not None:
            await asyncio.wait([self._work])
        self._is_closed = True
        await self._connection.disconnect()

    async def _send_all(self) -> None:
        try:
            while self._queue:
                taken, self._queue = self._queue[:MAX_BATCH], self._queue[MAX_BATCH:]
                batch = [pending for pending in taken if not pending.replies.cancelled()]
                try:
                    await self._round_trip(batch)
                except (RedisError, OSError) as error:
                    await self._connection.disconnect(nowait=True)
                    raised = error if isinstance(error, RedisError) else ConnectionError(str(error))
                    for pending in batch:
                        if not pending.replies.done():
                            pending.replies.set_exception(raised)
        finally:
            self._work = None

    async def _round_trip(self, batch: Sequence[_Pending]) -> None:
        connection = self._connection
        words = list(self._words(command for pending in batch for command in pending.trip))
        await connection.send_packed_command(connection.pack_commands(words), check_health=False)
        for pending in batch:
            replies, refusal = [], None
            for _ in pending.trip:
                try:
                    replies.append(await connection.read_response())
                except ResponseError as error:
                    refusal = error
            if isinstance(refusal, NoScriptError):
                self._known.clear()
                self._queue.append(pending)
            elif pending.replies.done():
                if pending.when_late is not None and refusal is None:
                    pending.when_late(replies)
            elif refusal is not None:
                pending.replies.set_exception(refusal)
            else:
                pending.replies.set_result(replies)

    def _words(self, commands: Iterator[Command]) -> Iterator[tuple[Any, ...]]:
        for command in commands:
            if not isinstance(command, Script):
                yield command
                continue
            text, sha = _script(command.name)
            arguments = (len(command.keys), *command.keys, *command.args)
            # The first call sends the text, which the server then knows.
            yield ("EVALSHA", sha, *arguments) if command.name in self._known else ("EVAL", text, *arguments)
            self._known.add(command.name)


def _words_of(trip: RoundTrip) -> Iterator[Any]:
    """The keys and arguments of scripts, and the words of commands."""
    for command in trip:
        yield from (*command.keys, *command.args) if isinstance(command, Script) else command


@lru_cache
def _script(name: str) -> tuple[str, str]:
    text = script_text(name)
    return text, sha1(text.encode(), usedforsecurity=False).hexdigest()
