"""The messages that this worker has taken and not yet done."""

from __future__ import annotations

from celery.worker import state


def task_ids_in_hand() -> list[str]:
    return list(state.requests)
