"""Caches of bytes under given keys: in Redis, in this process, or none; and the keys of answers.

A cache that is down raises CacheUnavailable; the caller continues without it and reports that.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

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


class MemoryCache:
    """Holds at most `max_entries`; thread-safe.  `clock` returns monotonic seconds."""

    def __init__(self, *, max_entries: int, clock: Callable[[], float] = time.monotonic) -> None:
        if max_entries < 1:
            raise ValueError(f"max_entries is at least 1, not {max_entries}; NullCache holds nothing")
        self._max_entries = max_entries
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    def __len__(self) -> int:
        """Number of entries, including expired ones that were not yet looked up or evicted."""
        return len(self._entries)

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        now = self._clock()
        values: dict[str, bytes] = {}
        with self._lock:
            for key in keys:
                expires, value = self._entries.get(key, (now, b""))
                if expires > now:
                    self._entries.move_to_end(key)
                    values[key] = value
                else:
                    self._entries.pop(key, None)
        return values

    def put_many(self, values: Mapping[str, bytes], *, ttl_s: float) -> None:
        expires = self._clock() + ttl_s
        with self._lock:
            for key, value in values.items():
                self._entries[key] = (expires, value)
                self._entries.move_to_end(key)
            while len(self._entries) > self._max_entries:
                self._entries.popitem(last=False)


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


def answer_key(
    namespace: str, question: Mapping[str, Any], options: Mapping[str, Any], plan: Mapping[str, Any]
) -> str:
    """Key of the answer to one question.

    `question`: text, variants and hypothetical documents.  `options`: the request's options for its answer.  `plan`:
    resolved values and model fingerprints.  The corpus generation is not part of the key: it is stored with the answer
    and compared when the answer is read, so that a new generation overwrites the old entry.
    """
    same = {**question, "text": normalised_text(str(question.get("text", "")))}
    document = json.dumps([namespace, same, dict(options), dict(plan)], sort_keys=True, separators=(",", ":"))
    return f"answer:{namespace}:{hashlib.sha256(document.encode()).hexdigest()[:40]}"
