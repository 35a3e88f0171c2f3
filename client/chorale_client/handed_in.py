"""Tickets and stamps of handed-in documents: the last version of a document wins, in whatever order messages are done."""

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
"""After this time a message that fails temporarily is given up."""
NOT_DONE_FOR_S = 30 * 86_400
"""Messages wait in their queue as long as there are no workers; after this time their order is lost.  About 100 bytes a
message."""

_TICKET = re.compile(r"(.+)\.[0-9a-f]{32}")


def new_ticket(namespace: str) -> str:
    """An unused ticket.  It names the namespace, under which unfinished tickets are kept."""
    return f"{namespace}.{uuid.uuid4().hex}"


def namespace_of(ticket: str) -> str:
    """The namespace in a ticket; empty for an id that another program made up."""
    return found[1] if (found := _TICKET.fullmatch(ticket)) else ""


def next_stamp(client: Redis) -> int:
    """Microseconds by the Redis server's clock, always later than every stamp before.  Raises RedisError."""
    return cast("int", Scripts(client).run("stamp", keys=[HANDED_IN]))


def stamp_of_message(client: Redis, namespace: str, ticket: str) -> int:
    """A stamp for a message.  The message is noted as not done, so that later writes of its documents are remembered."""
    keys = [HANDED_IN, NOT_DONE + namespace]
    return cast("int", Scripts(client).run("stamp", keys=keys, args=[ticket, NOT_DONE_FOR_S]))


def forget_message(client: Redis, namespace: str, ticket: str) -> None:
    """Remove the note of a message that was not sent.  If Redis does not answer, the note expires."""
    with suppress(RedisError):
        client.zrem(NOT_DONE + namespace, ticket)


def doubt_message(client: Redis, namespace: str, ticket: str) -> None:
    """Keep the note of a message that may not have been sent for one day, in which its sender may send it again."""
    with suppress(RedisError):
        client.zincrby(NOT_DONE + namespace, (KEPT_S - NOT_DONE_FOR_S) * 1_000_000, ticket)
