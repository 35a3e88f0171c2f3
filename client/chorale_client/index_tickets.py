"""Handed-in documents: tickets, stamps and the outcome.

The last version of a document wins, in whatever order messages are done.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any, cast

from pydantic_core import from_json
from redis import Redis
from redis.exceptions import RedisError

from chorale_client.errors import NotEnded, UnknownRequest
from chorale_client.keys import HANDED_IN, INDEXED, NOT_DONE, waiting_key
from chorale_client.sans_io import Exchange
from chorale_client.scripts import Scripts
from chorale_client.tenants import owned

NOT_WRITTEN = "not written"
"""Begins the reason of a skipped document that a store refused; the store's own words follow."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """The outcome of one `upsert` or `delete`.  Documents that are not in `skipped` or `unwritten` can be found."""

    namespace: str
    generation: int = 0
    """Generation of the corpus: a search of this generation or a later one sees the documents."""
    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    deleted: int = 0
    passages: int = 0
    """Number of passages that were embedded."""
    skipped: list[str] = field(default_factory=list)
    """What was left out, each with its reason: documents, and parts of documents that are indexed without them."""
    reasons: dict[str, int] = field(default_factory=dict)
    """How many of `skipped` by reason; the reasons are listed in docs/reference/wire.md."""
    unwritten: dict[str, str] = field(default_factory=dict)
    """Key: document id; value: why the document is not in every store yet.  It is kept and written again."""
    error: str | None = None
    """Why nothing was done; None if something was."""

    @property
    def is_whole(self) -> bool:
        """Whether every store shows every document."""
        return self.error is None and not self.skipped and not self.unwritten

    @classmethod
    def from_wire(cls, report: Mapping[str, Any]) -> Indexed:
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in report.items() if name in known})


MESSAGE_TTL_S = 86_400
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
    return match["namespace"] if (match := _TICKET.fullmatch(ticket)) else ""


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
        client.zincrby(NOT_DONE + namespace, (MESSAGE_TTL_S - NOT_DONE_FOR_S) * 1_000_000, ticket)


def outcome_of(ticket: str, *, is_last: bool) -> Exchange[Indexed | None]:
    """The outcome of handed-in documents; None if there is none yet.  The last look raises NotEnded or
    UnknownRequest."""
    (outcome,) = yield [("GET", INDEXED + ticket)]
    if outcome is None and is_last:
        namespace = namespace_of(ticket)
        # The outcome is read last: a message that ended meanwhile has it by now.
        handed_in, waiting, outcome = yield [
            ("ZSCORE", NOT_DONE + namespace, ticket),
            ("GET", waiting_key(ticket)),
            ("GET", INDEXED + ticket),
        ]
        if outcome is None:
            # A ticket of another program names no namespace, so it cannot be looked up.
            if namespace and handed_in is None and waiting is None:
                raise UnknownRequest(ticket, _UNKNOWN_TICKET)
            why = f": {from_json(waiting)['waiting']}" if waiting is not None else ""
            raise NotEnded(f"{ticket} is not indexed yet{why}; ask again")
    return None if outcome is None else Indexed.from_wire(from_json(outcome))
