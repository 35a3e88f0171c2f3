"""The time that a search was given."""

from __future__ import annotations

import time

from models.errors import StoreTimeout


class Deadline:
    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._end = time.monotonic() + timeout_s

    def check(self) -> None:
        """Raises StoreTimeout once the time is over; called between steps that are short themselves."""
        if time.monotonic() > self._end:
            raise StoreTimeout(f"the embedded store did not answer within {self._timeout_s:g} s")
