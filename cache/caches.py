"""Caches of bytes under given keys: in Redis, or none.

A cache that is down raises CacheUnavailable; the caller continues without it and reports that.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Protocol, cast

import redis
from chorale_client.keys import CACHE


class CacheUnavailable(Exception):
    """The cache did not answer; continue without it."""


class Cache(Protocol):
    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The stored values by key; missing keys are left out."""
        ...

    def put_many(self, values: Mapping[str, bytes], *, ttl_s: float) -> None:
        """Store these values; each expires after `ttl_s` seconds."""
        ...


class NullCache:
    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        return {}

    def put_many(self, values: Mapping[str, bytes], *, ttl_s: float) -> None:
        return None


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


def normalised_text(text: str) -> str:
    """The text in NFC with single spaces; case is kept because it matters to some models."""
    return " ".join(unicodedata.normalize("NFC", text).split())
