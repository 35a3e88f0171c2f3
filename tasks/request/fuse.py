"""The chord's callback: join, fuse, end.  Its task id is the request's id."""

from __future__ import annotations

import time

from celery import Celery
from chorale_client.wire_names import TASK_FUSE

from tasks.request.finishing import FUSION_WORKER, end_joined
from wiring.resources import Resources


def register(app: Celery) -> None:
    app.task(fuse_task, name=TASK_FUSE, bind=True, ignore_result=True, send_events=False)


def fuse_task(task: object, request_id: str, **_: object) -> None:
    """Does nothing if the join is not due yet, another worker has taken it, or the request has ended.

    Arguments that a newer version adds are ignored: the ledger has the whole request.
    """
    fuse(task.app.resources, request_id)  # type: ignore[attr-defined]


def fuse(resources: Resources, request_id: str) -> None:
    asked_s = time.monotonic()
    entry = resources.ledger.join(request_id)
    if entry is not None:
        end_joined(resources, [entry], by=FUSION_WORKER, joined_s=asked_s)
