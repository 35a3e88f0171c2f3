"""Tickets and stamps of documents that are handed in: what was handed in last stands, in whatever order it is done."""

from __future__ import annotations

import re
import uuid
from contextlib import suppress
from typing import cast

from redis import Redis
from redis.exceptions import RedisError

from chorale_client.keys import HANDED_IN, NOT_DONE
from chorale_client.scripts import Scripts

KEPT_S = 86_400
"""Beyond that a message that fails for now is given up."""
NOT_DONE_FOR_S = 30 * 86_400
"""Messages wait in their queue however long there are no workers; beyond that they are done in any order.  Some 100
bytes a message."""

_TICKET = re.compile(r"(.+)\.[0-9a-f]{32}")


def new_ticket(namespace: str) -> str:
    """It names the namespace, in which it is known as long as it is not done."""
    return f"{namespace}.{uuid.uuid4().hex}"


def namespace_of(ticket: str) -> str:
    """None, as the empty text, in an id that another program, or an older client, made up."""
    return found[1] if (found := _TICKET.fullmatch(ticket)) else ""


def next_stamp(client: Redis) -> int:
    """Microseconds by the Redis server's clock, and always later than the last.  Raises RedisError."""
    return cast("int", Scripts(client).run("stamp", keys=[HANDED_IN]))


def stamp_of_message(client: Redis, namespace: str, ticket: str) -> int:
    """The same for a message, which is noted as not done: what is written meanwhile is kept for it to know."""
    keys = [HANDED_IN, NOT_DONE + namespace]
    return cast("int", Scripts(client).run("stamp", keys=keys, args=[ticket, NOT_DONE_FOR_S]))


def forget_message(client: Redis, namespace: str, ticket: str) -> None:
    """It was not sent.  Where Redis does not answer, time does it."""
    with suppress(RedisError):
        client.zrem(NOT_DONE + namespace, ticket)


def doubt_message(client: Redis, namespace: str, ticket: str) -> None:
    """It may not have been sent: it is known as not done for a day, in which its sender may send it again."""
    with suppress(RedisError):
        client.zincrby(NOT_DONE + namespace, (KEPT_S - NOT_DONE_FOR_S) * 1_000_000, ticket)
