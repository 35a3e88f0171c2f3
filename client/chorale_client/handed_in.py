"""Stamps for documents that are handed in: what was handed in last stands, in whatever order it is done."""

from __future__ import annotations

from typing import cast

from redis import Redis

from chorale_client.keys import HANDED_IN
from chorale_client.scripts import Scripts


def next_stamp(client: Redis) -> int:
    """Microseconds by the Redis server's clock, and always later than the last.  Raises RedisError."""
    return cast("int", Scripts(client).run("stamp", keys=[HANDED_IN]))
