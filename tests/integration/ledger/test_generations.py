"""The copy of a corpus generation in Redis only rises, whoever writes it."""

from __future__ import annotations

from typing import Any

import redis
from chorale_client.keys import GENERATION

from tasks.wiring.generations import Generations
from tests.support.servers.redis_server import RedisServer


class Slow(redis.Redis):
    """Another process publishes generation 6 just before each write of this client."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        if args[0] in ("SET", "EVALSHA"):
            super().execute_command("SET", GENERATION + "docs", 6)  # type: ignore[no-untyped-call]
        return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]


def test_an_older_generation_does_not_replace_a_newer_one_that_was_published_meanwhile(
    redis_server: RedisServer, redis_client: redis.Redis
) -> None:
    documents: Any = None
    with Slow.from_url(redis_server.url) as slow:
        assert Generations(slow, documents, is_in_file=True).publish("docs", 5) == 6
    assert redis_client.get(GENERATION + "docs") == b"6"
