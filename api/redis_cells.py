"""The Redis of every cell, for what any cell can keep or answer: the count of a key's calls, a clock, a list of namespaces."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from chorale_client.cells import Placement
from chorale_client.connections.failover import follow_primary
from chorale_client.sans_io import redis_errors_translated
from redis import Redis as BlockingRedis
from redis.asyncio import Redis

from config.home import known_redis_url
from config.redis_client import open_redis
from config.settings import Settings

T = TypeVar("T")

SHORT_S = 1.0
"""Socket timeout of the short commands of an event loop.  A search has its own limit."""


def redis_urls(settings: Settings) -> Mapping[str, str]:
    """The address of Redis of each cell by its name; without cells the one Redis, whose name is empty.  Raises WrongDeclaration."""
    return settings.cells or {"": known_redis_url(settings.redis_url, settings.home)}


class RedisCells(Placement[Redis]):
    """For an event loop.  Its clients do not decode responses, and give up after SHORT_S."""

    def __init__(self, urls: Mapping[str, str]) -> None:
        super().__init__(
            {
                name: Redis.from_url(url, socket_timeout=SHORT_S, socket_connect_timeout=SHORT_S)
                for name, url in urls.items()
            }
        )
        for redis in self._cells.values():
            follow_primary(redis.connection_pool)

    async def first(self, hashed_text: str, do: Callable[[Redis], Awaitable[T]]) -> T:
        """The result of `do` for the first cell that can be reached, in the order that this text has.  Raises ServiceUnavailable if no cell can
        be reached."""
        for _, redis, attempt in self.attempts(hashed_text):
            with attempt, redis_errors_translated():
                return await do(redis)
        raise AssertionError("the last cell has answered or raised")

    async def aclose(self) -> None:
        for redis in self._cells.values():
            await redis.aclose()


class BlockingRedisCells(Placement[BlockingRedis]):
    """For threads.  Its clients do not decode responses, and give up after 2 s."""

    def __init__(self, urls: Mapping[str, str]) -> None:
        super().__init__({name: open_redis(url) for name, url in urls.items()})
        self.by_name: Mapping[str, BlockingRedis] = self._cells

    def answering(self, hashed_text: str) -> str:
        """The name of the first cell that answers, in the order that this text has.  A sole cell gets no PING.  Raises
        ServiceUnavailable if no cell answers."""
        for name, redis, attempt in self.attempts(hashed_text):
            with attempt, redis_errors_translated():
                if name:
                    redis.ping()
                return name
        raise AssertionError("the last cell has answered or raised")

    def close(self) -> None:
        for redis in self._cells.values():
            redis.close()
