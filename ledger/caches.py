"""Caches of bytes under given keys: in Redis, or none.

A cache that is down raises CacheUnavailable; the caller continues without it and reports that.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol, cast

import redis
from chorale_client.keys import CACHE
from pydantic_core import from_json, to_json

from models.declarations.extensions import GenerationResult


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


TTL_S = 604_800.0
"""A week: a hypothesis depends on the model, not on documents."""


class Write(Protocol):
    """A generator's `imagine`, an expander's `expand`."""

    def __call__(self, texts: Sequence[str], *, timeout_s: float) -> Sequence[GenerationResult]: ...


class CachedTexts:
    """Caches the texts of `write` by question and `fingerprint` (model, prompt and everything else that matters).

    A cache that is down is skipped.  Only results for which `is_whole` holds are stored, never failures or partial results.
    """

    def __init__(
        self,
        write: Write,
        *,
        fingerprint: str,
        cache: Cache,
        is_whole: Callable[[tuple[str, ...]], bool],
    ) -> None:
        self._write = write
        self._fingerprint = fingerprint
        self._cache = cache
        self._is_whole = is_whole

    def known(self, texts: Sequence[str], owner: str | None = None) -> dict[str, tuple[str, ...]]:
        """Cached results by text.  Each owner has its own, since a quick answer would show what others have asked."""
        key_of = {text: self._key(text, owner) for text in texts}
        values: dict[str, bytes] = {}
        with suppress(CacheUnavailable):
            values = self._cache.get_many(list(key_of.values()))
        read = {text: _read(values.get(key)) for text, key in key_of.items()}
        return {
            text: texts_of
            for text, texts_of in read.items()
            if texts_of is not None and self._is_whole(texts_of)
        }

    def write(
        self, texts: Sequence[str], *, timeout_s: float, keep: bool = True, owner: str | None = None
    ) -> list[GenerationResult]:
        """Write new texts in one call; returns one result for each text, and caches whole results."""
        written = list(self._write(texts, timeout_s=timeout_s))
        fresh = {
            self._key(text, owner): to_json(result)
            for text, result in zip(texts, written, strict=True)
            if isinstance(result, tuple) and self._is_whole(result)
        }
        if keep:
            with suppress(CacheUnavailable):
                self._cache.put_many(fresh, ttl_s=TTL_S)
        return written

    def _key(self, text: str, owner: str | None) -> str:
        hashed = hashlib.sha256(normalised_text(text).encode("utf-8", "surrogatepass")).hexdigest()
        return f"hypothesis:{self._fingerprint}:{hashed}{'' if owner is None else f':{owner}'}"


def _read(value: bytes | None) -> tuple[str, ...] | None:
    """The cached texts; None for a missing or malformed value."""
    if value is None:
        return None
    try:
        texts = from_json(value)
    except ValueError:
        return None
    is_texts = isinstance(texts, list) and all(isinstance(text, str) for text in texts)
    return tuple(texts) if is_texts else None
