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

MOST_TOGETHER = 256
"""Maximum trips that share one round trip, so that the first does not wait long for its replies."""


@dataclass(frozen=True, slots=True)
class _Asked:
    trip: RoundTrip
    replies: asyncio.Future[Sequence[Any]]
    when_late: Callable[[Sequence[Any]], None] | None


class Commands:
    """Belongs to one event loop.  Every method raises RedisError."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._connection: Any = pool.connection_class(**pool.connection_kwargs)
        self._asked: list[_Asked] = []
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
        for word in _given(trip):
            if isinstance(word, str) and not word.isascii():
                word.encode()
        asked = _Asked(trip, loop.create_future(), when_late)
        self._asked.append(asked)
        if self._work is None:
            self._work = loop.create_task(self._send_all(), name="chorale-commands")
        return asked.replies

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
            while self._asked:
                taken, self._asked = self._asked[:MOST_TOGETHER], self._asked[MOST_TOGETHER:]
                batch = [one for one in taken if not one.replies.cancelled()]
                try:
                    await self._round_trip(batch)
                except (RedisError, OSError) as error:
                    await self._connection.disconnect(nowait=True)
                    said = error if isinstance(error, RedisError) else ConnectionError(str(error))
                    for asked in batch:
                        if not asked.replies.done():
                            asked.replies.set_exception(said)
        finally:
            self._work = None

    async def _round_trip(self, batch: Sequence[_Asked]) -> None:
        connection = self._connection
        words = list(self._words(command for asked in batch for command in asked.trip))
        await connection.send_packed_command(connection.pack_commands(words), check_health=False)
        for asked in batch:
            replies, refusal = [], None
            for _ in asked.trip:
                try:
                    replies.append(await connection.read_response())
                except ResponseError as error:
                    refusal = error
            if isinstance(refusal, NoScriptError):
                self._known.clear()
                self._asked.append(asked)
            elif asked.replies.done():
                if asked.when_late is not None and refusal is None:
                    asked.when_late(replies)
            elif refusal is not None:
                asked.replies.set_exception(refusal)
            else:
                asked.replies.set_result(replies)

    def _words(self, commands: Iterator[Command]) -> Iterator[tuple[Any, ...]]:
        for one in commands:
            if not isinstance(one, Script):
                yield one
                continue
            text, sha = _script(one.name)
            given = (len(one.keys), *one.keys, *one.args)
            # The first call sends the text, which the server then knows.
            yield ("EVALSHA", sha, *given) if one.name in self._known else ("EVAL", text, *given)
            self._known.add(one.name)


def _given(trip: RoundTrip) -> Iterator[Any]:
    """The keys and arguments of scripts, and the words of commands."""
    for one in trip:
        yield from (*one.keys, *one.args) if isinstance(one, Script) else one


@lru_cache
def _script(name: str) -> tuple[str, str]:
    text = script_text(name)
    return text, sha1(text.encode(), usedforsecurity=False).hexdigest()
