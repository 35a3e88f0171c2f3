"""A client of Redis for short questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from redis import Redis


def open_redis(url: str, *, limit_s: float = 2.0) -> Redis:
    """A client whose calls fail after `limit_s`."""
    from redis import Redis

    return Redis.from_url(url, socket_timeout=limit_s, socket_connect_timeout=limit_s)
