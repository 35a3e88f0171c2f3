"""What a worker has taken at once: requests to end, and parts of branches to answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from celery import Celery
from celery.exceptions import WorkerShutdown, WorkerTerminate
from chorale_client.reading import refusal
from chorale_client.words import QUEUE_FUSION, WIRE_VERSION, Reason
from structlog import get_logger

from assembly.resources import Resources
from ledger.protocol import Snapshot, Started
from models.envelope import Envelope
from tasks.celery_surface.message_intake import Intake, TakenMessage
from tasks.request.ending import FUSION_WORKER, end_joined
from tasks.request.fuse import fuse_task
from tasks.request.search import answer_part, search_task
from tasks.request.search_together import answer_parts, merges

log = get_logger("chorale.batch")


def make_intake(app: Celery, queues: Sequence[str]) -> Intake:
    """The intake of a worker of these queues."""
    resources: Resources = app.resources
    own = (search_task, fuse_task)
    # A task that was registered in place of ours is Celery's.
    tasks = [name for name, task in app.tasks.items() if getattr(task.run, "__func__", None) in own]
    return Intake(app, resources.ledger, resources.redis, tasks, _most(resources, queues), _run(app))


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


def _run(app: Celery) -> Callable[[Sequence[TakenMessage], Sequence[Snapshot], float], None]:
    resources: Resources = app.resources

    def run(parts: Sequence[TakenMessage], joined: Sequence[Snapshot], joined_s: float) -> None:
        if joined:
            end_joined(resources, joined, by=FUSION_WORKER, joined_s=joined_s)
        if parts:
            _answer(app, parts)

    return run


def _answer(app: Celery, parts: Sequence[TakenMessage]) -> None:
    resources: Resources = app.resources
    todo = [(str(one.arguments["branch"]), one.started) for one in parts if one.started is not None]
    refused = [refusal(one.arguments.get("v", WIRE_VERSION)) for one in parts]
    accepted = [one for one, why in zip(todo, refused, strict=True) if why is None]
    answered = iter(_answers(resources, accepted))
    reports = []
    for one, (branch, started), why in zip(parts, todo, refused, strict=True):
        envelope = (
            next(answered)
            if why is None
            else Envelope.failed(branch, Reason.NOT_CONFIGURED, f"message: {why}")
        )
        envelope = replace(envelope, attempt=one.arguments.get("attempt", 1))
        reports.append((str(one.arguments["request_id"]), envelope, started.accepted_at_ms))
    app.backend.report_all(reports)


def _answers(resources: Resources, todo: Sequence[tuple[str, Started]]) -> list[Envelope]:
    """An envelope for each, even if a package's branch raises SystemExit."""
    try:
        return answer_parts(resources, todo)
    except (WorkerShutdown, WorkerTerminate):
        raise
    except BaseException:
        log.exception("batch failed", parts=len(todo))
    return [_answer_alone(resources, name, started) for name, started in todo]


def _answer_alone(resources: Resources, name: str, started: Started) -> Envelope:
    try:
        return answer_part(resources, name, started)
    except (WorkerShutdown, WorkerTerminate):
        raise
    except BaseException as error:
        log.exception("branch failed", branch=name)
        return Envelope.failed(name, Reason.ERROR, f"{type(error).__name__}: {error}")
