"""The time that one call was given, retries and pauses included."""

from __future__ import annotations

import time

from models.errors import StoreTimeout


class Deadline:
    def __init__(self, timeout_s: float, subject: str) -> None:
        """`subject` names the store in the error."""
        self._timeout_s = timeout_s
        self._subject = subject
        self._end = time.monotonic() + timeout_s

    @property
    def left_s(self) -> float:
        return self._end - time.monotonic()

    def check(self) -> float:
        """Seconds left; raises StoreTimeout if there are none."""
        left_s = self.left_s
        if left_s <= 0:
            raise self.over()
        return left_s

    def over(self) -> StoreTimeout:
        return StoreTimeout(f"{self._subject} did not answer within {self._timeout_s:g} s")
