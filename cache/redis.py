"""A cache in Redis, shared by all processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import redis
from chorale_client.keys import CACHE

from cache.protocol import CacheUnavailable

KEY = CACHE + "{key}"


class RedisCache:
    """Each call is one round trip.  Redis decides what is evicted; any failure of Redis is CacheUnavailable.

    The caller's client should have short timeouts, and no `decode_responses`.
    """

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        if not keys:
            return {}
        try:
            values = cast(list[bytes | None], self._client.mget([KEY.format(key=key) for key in keys]))
        except (redis.RedisError, OSError) as error:
            raise CacheUnavailable(f"reading from Redis failed: {error}") from error
        return {key: value for key, value in zip(keys, values, strict=True) if value is not None}

    def put_many(self, values: Mapping[str, bytes], *, ttl_s: float) -> None:
        ttl_ms = int(ttl_s * 1000)
        # Redis refuses a TTL of 0.
        if not values or ttl_ms < 1:
            return
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                for key, value in values.items():
                    pipeline.set(KEY.format(key=key), value, px=ttl_ms)
                pipeline.execute()
        except (redis.RedisError, OSError) as error:
            raise CacheUnavailable(f"writing to Redis failed: {error}") from error
