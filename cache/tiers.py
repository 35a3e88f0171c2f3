"""Several caches, asked in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from cache.protocol import Cache, CacheUnavailable

T = TypeVar("T")


class Tiers:
    """`caches`, the nearest first.  A cache that is down is skipped."""

    def __init__(self, caches: Sequence[Cache], *, ttl_s: float) -> None:
        self._caches = tuple(caches)
        self._ttl_s = ttl_s

    def get_many(self, keys: Sequence[str], read: Callable[[bytes], T | None]) -> dict[str, T]:
        """The values that `read` accepts, by key; values from a later cache are copied to the earlier ones."""
        found: dict[str, T] = {}
        for at, cache in enumerate(self._caches):
            if not (missing := [key for key in keys if key not in found]):
                break
            with suppress(CacheUnavailable):
                values = cache.get_many(missing)
                valid = {key: one for key, value in values.items() if (one := read(value)) is not None}
                self._put({key: values[key] for key in valid}, self._caches[:at])
                found |= valid
        return found

    def put_many(self, values: Mapping[str, bytes]) -> None:
        """Store these values in all caches."""
        self._put(values, self._caches)

    def _put(self, values: Mapping[str, bytes], caches: Sequence[Cache]) -> None:
        for cache in caches:
            with suppress(CacheUnavailable):
                cache.put_many(values, ttl_s=self._ttl_s)
