"""With a Redis broker, documents wait in the Redis of the requests: they may not fill it."""

from __future__ import annotations

from typing import Any

from kombu.serialization import dumps
from redis import Redis

from chorale_client.errors import NoRoom
from chorale_client.scripts import Scripts

BYTES_A_BYTE = 3
"""Bytes of memory for one byte of JSON: a message is base64, and Redis holds it twice while it is written."""


def check_memory(client: Redis, queue: str, work: dict[str, Any]) -> None:
    """Raises NoRoom, RedisError, and EncodeError if the work is no JSON."""
    check_bytes(client, queue, BYTES_A_BYTE * len(dumps(work, serializer="json")[2]))


def check_bytes(
    client: Redis, queue: str, size: int, *, of: str = "documents", whom: str = "index workers"
) -> None:
    """Raises NoRoom if Redis has no room for so many bytes more; RedisError."""
    if found := Scripts(client).run("room", keys=[queue], args=[size]):
        raise NoRoom(*found, of=of, whom=whom)
