"""Stamps for documents that are handed in: what was handed in last stands, in whatever order it is done."""

from __future__ import annotations

from contextlib import suppress
from typing import cast

from redis import Redis
from redis.exceptions import RedisError

from chorale_client.keys import HANDED_IN, NOT_DONE
from chorale_client.scripts import Scripts

KEPT_S = 86_400
"""Beyond that a message is given up, and no longer known as one that is not done."""


def next_stamp(client: Redis) -> int:
    """Microseconds by the Redis server's clock, and always later than the last.  Raises RedisError."""
    return cast("int", Scripts(client).run("stamp", keys=[HANDED_IN]))


def stamp_of_message(client: Redis, namespace: str, ticket: str) -> int:
    """The same for a message, which is noted as not done: what is written meanwhile is kept for it to know."""
    keys = [HANDED_IN, NOT_DONE + namespace]
    return cast("int", Scripts(client).run("stamp", keys=keys, args=[ticket, KEPT_S]))


def forget_message(client: Redis, namespace: str, ticket: str) -> None:
    """It was not sent.  Where Redis does not answer, a day does it."""
    with suppress(RedisError):
        client.zrem(NOT_DONE + namespace, ticket)
