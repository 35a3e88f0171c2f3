"""Values that expire at their own moments, as Redis keys do."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Expiring(Generic[Value]):
    """A small dictionary; a value is there up to and including its moment (ms)."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[int, Value]] = {}
        self._ends: list[tuple[int, str]] = []

    def __contains__(self, key: str) -> bool:
        return key in self._kept

    def get(self, key: str) -> Value | None:
        kept = self._kept.get(key)
        return None if kept is None else kept[1]

    def __getitem__(self, key: str) -> Value:
        return self._kept[key][1]

    def put(self, key: str, value: Value, *, until_ms: int) -> None:
        self._kept[key] = (until_ms, value)
        heapq.heappush(self._ends, (until_ms, key))

    def pop(self, key: str) -> Value | None:
        kept = self._kept.pop(key, None)
        return None if kept is None else kept[1]

    def forget(self, now_ms: int) -> None:
        """Drops expired values."""
        while self._ends and self._ends[0][0] < now_ms:
            _, key = heapq.heappop(self._ends)
            # A value that was written again expires at its newer moment.
            if key in self._kept and self._kept[key][0] < now_ms:
                del self._kept[key]
