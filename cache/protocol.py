"""What every cache promises: answers, question vectors and hypotheses are kept behind one small door.

A cache that is down never fails a request: it raises CacheUnavailable, and the caller goes on and says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class CacheUnavailable(Exception):
    """The cache did not answer; go on without it."""


class Cache(Protocol):
    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """What is stored under these keys; missing ones are left out."""
        ...

    def put_many(self, values: Mapping[str, bytes], *, ttl_s: float) -> None:
        """Store all; each expires after `ttl_s` seconds."""
        ...
