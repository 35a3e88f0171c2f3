"""What kombu's keys in Redis begin with."""

KOMBU = "_kombu."
BINDINGS = f"{KOMBU}binding"
"""An exchange's queues."""
UNACKED = "unacked"
"""Messages that are not acknowledged."""
