"""Tickets and stamps of handed-in documents: the last version of a document wins, in whatever order messages are done."""

from __future__ import annotations

import re
import uuid
from contextlib import suppress
from typing import cast

from pydantic_core import from_json
from redis import Redis
from redis.exceptions import RedisError

from chorale_client.errors import NotEnded, UnknownRequest
from chorale_client.indexed import Indexed
from chorale_client.keys import HANDED_IN, INDEXED, NOT_DONE, waiting_key
from chorale_client.sans_io import Exchange
from chorale_client.scripts import Scripts
from chorale_client.tenants import owned

KEPT_S = 86_400
"""After this time a message that fails temporarily is given up."""
NOT_DONE_FOR_S = 30 * 86_400
"""Messages wait in their queue as long as there are no workers; after this time their order is lost.  About 100 bytes a
message."""

_UNKNOWN_TICKET = "it was never handed in here, was lost, or ended more than an hour ago; hand in the documents as they are now"

_TICKET = re.compile(r"(t\.[^.]+\.)?(?P<namespace>.+)\.[0-9a-f]{32}")


def new_ticket(namespace: str, tenant: str | None = None) -> str:
    """An unused ticket of a tenant, or of nobody.  It names the namespace, under which unfinished tickets are kept."""
    ticket = f"{namespace}.{uuid.uuid4().hex}"
    return ticket if tenant is None else owned(tenant, ticket)


def namespace_of(ticket: str) -> str:
    """The namespace in a ticket; empty for an id that another program made up."""
    return found["namespace"] if (found := _TICKET.fullmatch(ticket)) else ""


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


def outcome_of(ticket: str, *, is_last: bool) -> Exchange[Indexed | None]:
    """The outcome of handed-in documents; None if there is none yet.  The last look raises NotEnded or UnknownRequest instead."""
    (told,) = yield [("GET", INDEXED + ticket)]
    if told is None and is_last:
        namespace = namespace_of(ticket)
        # The outcome is read last: a message that ended meanwhile has it by now.
        handed_in, waiting, told = yield [
            ("ZSCORE", NOT_DONE + namespace, ticket),
            ("GET", waiting_key(ticket)),
            ("GET", INDEXED + ticket),
        ]
        if told is None:
            # A ticket of another program names no namespace, so it cannot be looked up.
            if namespace and handed_in is None and waiting is None:
                raise UnknownRequest(ticket, _UNKNOWN_TICKET)
            why = f": {from_json(waiting)['waiting']}" if waiting is not None else ""
            raise NotEnded(f"{ticket} is not indexed yet{why}; ask again")
    return None if told is None else Indexed.from_wire(from_json(told))
