"""Waits for a condition of a test."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(so: Callable[[], T], limit_s: float = 30) -> T:
    """Returns the value of `so()` once it is true; fails if it never is."""
    give_up = time.monotonic() + limit_s
    while not (said := so()):
        assert time.monotonic() < give_up, f"it never was so: {said!r}"
        time.sleep(0.01)
    return said
