"""The messages that this worker has taken and not yet done."""

from __future__ import annotations

from celery.worker import state

taken: set[str] = set()
"""Task ids of the messages that `tasks.celery_surface.message_intake` has in hand."""


def task_ids_in_hand() -> list[str]:
    return [*state.requests, *taken]
