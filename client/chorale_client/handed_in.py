"""Stamps for documents that are handed in: what was handed in last stands, in whatever order it is done."""

from __future__ import annotations

from typing import cast

from redis import Redis

from chorale_client.keys import HANDED_IN

_NEXT = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local last = tonumber(redis.call('GET', KEYS[1]) or '0')
if now <= last then now = last + 1 end
redis.call('SET', KEYS[1], string.format('%.0f', now))
return now
"""


def next_stamp(client: Redis) -> int:
    """Microseconds by the Redis server's clock, and always later than the last, though the clock is set back."""
    return cast("int", client.eval(_NEXT, 1, HANDED_IN))
