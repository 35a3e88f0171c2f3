"""Waiting for what a test has begun."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(so: Callable[[], T], limit_s: float = 30) -> T:
    """What `so` says, once that is true; fail if it never is."""
    give_up = time.monotonic() + limit_s
    while not (said := so()):
        assert time.monotonic() < give_up, f"it never was so: {said!r}"
        time.sleep(0.01)
    return said
