"""The chord's callback: join, fuse, end.  Its task id is the request's id."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from celery import Celery
from chorale_client.words import TASK_FUSE

from tasks.request.ending import FUSION_WORKER, end_joined

if TYPE_CHECKING:
    from assembly.resources import Resources


def register(app: Celery) -> None:
    app.task(fuse_task, name=TASK_FUSE, bind=True, ignore_result=True)


def fuse_task(task: object, request_id: str, **_: object) -> None:
    """Too early, taken by another worker, or ended: then there is nothing to do here.

    The request stands in the ledger whole: what a newer version says besides is not needed.
    """
    resources: Resources = task.app.resources  # type: ignore[attr-defined]
    asked_s = time.monotonic()
    entry = resources.ledger.join(request_id)
    if entry is not None:
        end_joined(resources, entry, by=FUSION_WORKER, joined_s=asked_s)
