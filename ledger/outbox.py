"""How many ended requests may wait for the audit tables.  Every script that ends a request checks this limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from chorale_client.keys import OUTBOX_LIMIT, OUTBOX_REFUSED
from chorale_client.protocol_constants import PROTOCOL
from redis import Redis


@dataclass(frozen=True, slots=True)
class OutboxBound:
    entries: int
    """Maximum number of entries; 0: no limit."""
    refused: int
    """How many requests were refused because the outbox was full.  They are counted and not audited."""


def publish_outbox_limit(client: Redis, entries: int) -> None:
    """Tell callers, which have no settings, the limit of the workers.  Raises RedisError."""
    client.set(OUTBOX_LIMIT, entries)


def read_outbox_bound(client: Redis) -> OutboxBound:
    """Raises RedisError."""
    limit, refused = cast("list[bytes | None]", client.mget(OUTBOX_LIMIT, OUTBOX_REFUSED))
    return OutboxBound(PROTOCOL.default_outbox_limit if limit is None else int(limit), int(refused or 0))
