"""The task of a branch, and what a worker has taken at once: requests to end, and parts of branches to answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from celery import Celery
from celery.exceptions import WorkerShutdown, WorkerTerminate
from chorale_client.wire_names import QUEUE_FUSION, TASK_SEARCH, WIRE_VERSION, Reason
from structlog import get_logger

from ledger.protocol import Snapshot, Started
from models.branch_result import BranchResult
from models.plan import is_costly
from tasks.celery_internals.batch_consumer import Intake, TakenMessage
from tasks.celery_internals.result_backend import Report
from tasks.request.batch_search import answer_parts, merges
from tasks.request.cost import uses_bulk_queue
from tasks.request.finishing import FUSION_WORKER, end_joined
from tasks.request.fuse import fuse_task
from wiring.resources import Resources

log = get_logger("chorale.batch")


def make_intake(app: Celery, queues: Sequence[str]) -> Intake:
    resources: Resources = app.resources
    own = (search_task, fuse_task)
    # A task that was registered in place of ours is Celery's.
    tasks = [name for name, task in app.tasks.items() if getattr(task.run, "__func__", None) in own]
    most = _most(resources, queues)
    intake = Intake(app, resources.ledger, resources.redis, tasks, most, _run(app, most))
    resources.serve_others = intake.take_more
    return intake


def _most(resources: Resources, queues: Sequence[str]) -> dict[str, int]:
    """How many messages of each queue are taken at once.

    Reranking takes longer than a batch saves, and so does a language model: there the next message stays in the queue, for
    any worker.
    """
    pipeline, batch = resources.pipeline, resources.settings.batch
    found = {}
    if QUEUE_FUSION in queues:
        found[QUEUE_FUSION] = 1 if pipeline.rerankers else batch
    for branch in pipeline.branches:
        if branch.queue in queues:
            together = merges(resources, pipeline.kinds.branches[branch.kind], branch.name)
            found[branch.queue] = min(found.get(branch.queue, batch), batch if together else 1)
    return found


def _run(
    app: Celery, most: Mapping[str, int]
) -> Callable[[Sequence[TakenMessage], Sequence[Snapshot], float], None]:
    resources: Resources = app.resources
    # A worker that takes fusions together fuses what it has completed, without a message.
    fuses = most.get(QUEUE_FUSION, 1) > 1

    def run(parts: Sequence[TakenMessage], joined: Sequence[Snapshot], joined_s: float) -> None:
        if joined:
            end_joined(resources, joined, by=FUSION_WORKER, joined_s=joined_s)
        if parts:
            _answer(app, parts, fuses=fuses)

    return run


def _answer(app: Celery, parts: Sequence[TakenMessage], *, fuses: bool) -> None:
    """Answer and report the parts together, and then each costly one by itself."""
    costly = [one for one in parts if one.started is not None and is_costly(one.started.plan)]
    others = [one for one in parts if one not in costly]
    for some in ([others] if others else []) + [[one] for one in costly]:
        _answer_together(app, some, fuses=fuses)


def _answer_together(app: Celery, parts: Sequence[TakenMessage], *, fuses: bool) -> None:
    todo = [(one.arguments, one.started) for one in parts if one.started is not None]
    answered = zip(_answers(app.resources, todo), todo, strict=True)
    reports = [(str(given["request_id"]), envelope, started) for envelope, (given, started) in answered]
    if fuses:
        _report_and_fuse(app, reports)
    else:
        app.backend.report_all(reports)


def _report_and_fuse(app: Celery, reports: Sequence[tuple[str, BranchResult, Started]]) -> None:
    asked_s = time.monotonic()
    joined = app.backend.report_and_join(reports)
    end_joined(app.resources, joined, by=FUSION_WORKER, joined_s=asked_s)


def _answers(resources: Resources, todo: Sequence[tuple[Mapping[str, Any], Started]]) -> list[BranchResult]:
    """An envelope for the arguments of each message and its started part, even if a package's branch raises SystemExit."""
    parts = [(str(given["branch"]), started, given.get("v", WIRE_VERSION)) for given, started in todo]
    try:
        envelopes = answer_parts(resources, parts)
    except (WorkerShutdown, WorkerTerminate):
        raise
    except BaseException as error:
        log.exception("batch failed", parts=len(todo))
        if len(todo) > 1:
            return [_answers(resources, [one])[0] for one in todo]
        envelopes = [BranchResult.failed(parts[0][0], Reason.ERROR, f"{type(error).__name__}: {error}")]
    attempts = (given.get("attempt", 1) for given, _ in todo)
    return [
        replace(one, attempt=attempt, worker=resources.worker_name)
        for one, attempt in zip(envelopes, attempts, strict=True)
    ]


def register(app: Celery) -> None:
    """One task for each kind; `chorale_client.wire_names` has the names."""
    for kind in app.resources.pipeline.kinds.branches:
        app.task(
            search_task, name=TASK_SEARCH.format(kind=kind), bind=True, ignore_result=True, send_events=False
        )


def search_task(task: Any, request_id: str, branch: str, **given: Any) -> Report | None:
    """Start, search; the result backend reports the envelope to the ledger.  Attempt 2 is a hedge.

    Fields of newer versions are ignored.
    """
    resources: Resources = task.app.resources
    started = resources.ledger.start(request_id, branch)
    if started is None:
        return None
    [envelope] = _answers(resources, [({"branch": branch, **given}, started)])
    if not uses_bulk_queue(started.plan):
        return Report(envelope, started)
    # A worker of bulk jobs fuses what it has completed: the message of a fusion would go where others wait.
    _report_and_fuse(task.app, [(request_id, envelope, started)])
    return None
