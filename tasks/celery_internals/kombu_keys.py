"""What kombu's keys in Redis begin with."""

from __future__ import annotations

KOMBU = "_kombu."
BINDINGS = f"{KOMBU}binding"
"""An exchange's queues."""
UNACKED = "unacked"
"""Messages that are not acknowledged."""
