"""The time that a call was given, retries and pauses included."""

from __future__ import annotations

import time

from models.errors import StoreTimeout


class Deadline:
    def __init__(self, timeout_s: float, address: str) -> None:
        self.timeout_s = timeout_s
        self._address = address
        self._end = time.monotonic() + timeout_s

    @property
    def left_s(self) -> float:
        return self._end - time.monotonic()

    def check(self) -> float:
        """Seconds left; raises StoreTimeout once there are none."""
        left_s = self.left_s
        if left_s <= 0:
            raise self.over()
        return left_s

    def over(self) -> StoreTimeout:
        return StoreTimeout(f"Elasticsearch at {self._address} did not answer within {self.timeout_s:g} s")
