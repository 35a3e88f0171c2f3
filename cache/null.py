"""A cache that stores nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class NullCache:
    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        return {}

    def put_many(self, values: Mapping[str, bytes], *, ttl_s: float) -> None:
        return None
