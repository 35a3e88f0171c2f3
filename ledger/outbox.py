"""How many ended requests may wait for the audit tables, which every script that ends a request looks at."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import cast

from chorale_client.keys import OUTBOX_LIMIT, OUTBOX_REFUSED
from chorale_client.ledger import DEFAULT_OUTBOX_LIMIT
from redis import Redis


@dataclass(frozen=True, slots=True)
class OutboxBound:
    entries: int
    """0: any number."""
    refused: int
    """How many requests were refused, and only counted, since so many waited."""


class MemoryOutbox(deque[dict[bytes, bytes]]):
    """The fields of one entry after another, the oldest first."""

    def __init__(self) -> None:
        super().__init__()
        self.limit = DEFAULT_OUTBOX_LIMIT
        self.refused = 0

    @property
    def share(self) -> float:
        """How much of what may wait does."""
        return len(self) / self.limit if self.limit > 0 else 0


def publish_outbox_limit(client: Redis, entries: int) -> None:
    """A caller has no settings, so the workers publish theirs.  Raises RedisError."""
    client.set(OUTBOX_LIMIT, entries)


def read_outbox_bound(client: Redis) -> OutboxBound:
    """Raises RedisError."""
    limit, refused = cast("list[bytes | None]", client.mget(OUTBOX_LIMIT, OUTBOX_REFUSED))
    return OutboxBound(DEFAULT_OUTBOX_LIMIT if limit is None else int(limit), int(refused or 0))
