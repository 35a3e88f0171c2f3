"""Sends tasks of other applications on the same broker."""

from __future__ import annotations

from typing import Any

from celery import Celery
from chorale_client.confirmed import send_confirmed
from kombu import Queue

FIRST_PAUSE_S = 1.0


def send(app: Celery, task: str, queue: str, **message: Any) -> None:
    """Send the task; raises if the broker does not have it in a queue of this name."""
    send_confirmed(
        app,
        task,
        # Sent through the nameless exchange, which reaches every queue.  The queue is not declared: only its owner knows
        # its arguments.
        queue=Queue(queue),
        declare=[],
        mandatory=True,
        **message,
    )


def pause_s(failures: int, *, longest_s: float) -> float:
    """The pause before the next attempt; `failures` are those before the last one."""
    return float(min(longest_s, FIRST_PAUSE_S * 2 ** min(failures, 20)))
