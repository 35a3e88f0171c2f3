"""Waits for a condition of a test."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SOONEST_S, LATEST_S = 0.01, 0.1
"""The pauses between two checks of a condition.  They grow with the time that the test has waited."""


def until(so: Callable[[], T], limit_s: float = 30) -> T:
    """Returns the value of `so()` once it is true; fails if it never is."""
    begun = time.monotonic()
    while not (said := so()):
        waited_s = time.monotonic() - begun
        assert waited_s < limit_s, f"it never was so: {said!r}"
        time.sleep(min(LATEST_S, SOONEST_S + waited_s / 100))
    return said
