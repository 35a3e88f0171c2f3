"""How a process that works for days collects cyclic garbage: seldom, and never what its start has made."""

from __future__ import annotations

import gc

THRESHOLDS = 50_000, 20, 20
"""Python's own are 700, 10, 10: the lists of one branch's answer alone set off several collections."""


def collect_seldom() -> None:
    """Call this when the process is warm: modules, models and indexes are not looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
