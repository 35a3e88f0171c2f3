"""A bounded cache in this process; evicts the least recently used entry."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence


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
        found: dict[str, bytes] = {}
        with self._lock:
            for key in keys:
                expires, value = self._entries.get(key, (now, b""))
                if expires > now:
                    self._entries.move_to_end(key)
                    found[key] = value
                else:
                    self._entries.pop(key, None)
        return found

    def put_many(self, values: Mapping[str, bytes], *, ttl_s: float) -> None:
        expires = self._clock() + ttl_s
        with self._lock:
            for key, value in values.items():
                self._entries[key] = (expires, value)
                self._entries.move_to_end(key)
            while len(self._entries) > self._max_entries:
                self._entries.popitem(last=False)
