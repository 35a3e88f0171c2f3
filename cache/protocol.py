"""What every cache promises.

A cache that is down raises CacheUnavailable; the caller continues without it and reports that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class CacheUnavailable(Exception):
    """The cache did not answer; continue without it."""


class Cache(Protocol):
    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The stored values by key; missing keys are left out."""
        ...

    def put_many(self, values: Mapping[str, bytes], *, ttl_s: float) -> None:
        """Store these values; each expires after `ttl_s` seconds."""
        ...
