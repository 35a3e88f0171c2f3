"""The messages that this worker has taken and not yet done."""

from __future__ import annotations

from celery.worker import state

taken: set[str] = set()
"""Task ids of the messages that `tasks.celery_internals.batch_consumer` has in hand."""


def ids_in_progress() -> list[str]:
    return [*state.requests, *taken]
