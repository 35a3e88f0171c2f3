"""The tasks of the chord, and what a worker has taken at once: requests to end, and parts of branches to answer.

Parts of several requests that are alike become one search.  They have the same branch, store, depth, namespace, filters
(with those that may be dropped) and exclusions.  Each keeps its own deadline: a part with little time left is searched
first and alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from celery import Celery
from celery.exceptions import WorkerShutdown, WorkerTerminate
from chorale_client.wire_names import QUEUE_FUSION, TASK_FUSE, TASK_SEARCH, WIRE_VERSION, Reason
from structlog import get_logger

from fusion.conditions import relaxable_filters
from fusion.rankings import DENSE
from ledger.local_join import join_locally
from ledger.protocol import Snapshot, Started
from models.branch_result import BranchResult
from models.declarations.extensions import BranchKind
from models.errors import StageFailure
from models.plan import is_costly
from tasks.branches.branch_task import BranchTask, TaskResources
from tasks.celery_internals.batch_consumer import BatchConsumer, ConsumedMessage
from tasks.celery_internals.result_backend import Report
from tasks.request.composing.ending import FUSION_WORKER
from tasks.request.finishing import end_joined
from tasks.request.search import Part, answer_together, open_part
from tasks.wiring.resources import Resources

log = get_logger("chorale.batch")

_AnsweredPart = tuple[str, BranchResult, Started]
"""The id of a request, the result of one of its branches, and the start of that part."""


def make_intake(app: Celery, queues: Sequence[str]) -> BatchConsumer:
    resources: Resources = app.resources
    own = (search_task, fuse_task)
    # A task that was registered in place of ours is Celery's.
    tasks = [name for name, task in app.tasks.items() if getattr(task.run, "__func__", None) in own]
    most = _most(resources, queues)
    # A worker of some branches would take the tokens of the others.
    has_tokens = resources.settings.lean and {branch.queue for branch in resources.pipeline.branches} <= set(
        queues
    )
    return BatchConsumer(app, resources.ledger, resources.redis, tasks, most, has_tokens, _run(app, most))


def _most(resources: Resources, queues: Sequence[str]) -> dict[str, int]:
    """How many messages of each queue are taken at once.

    Reranking takes longer than a batch saves, and so does a language model: there the next message stays in the queue, for
    any worker.
    """
    pipeline, batch = resources.pipeline, resources.settings.batch
    most = {}
    if QUEUE_FUSION in queues:
        most[QUEUE_FUSION] = 1 if pipeline.rerankers else batch
    for branch in pipeline.branches:
        if branch.queue in queues:
            together = can_batch(resources, pipeline.kinds.branches[branch.kind], branch.name)
            most[branch.queue] = min(most.get(branch.queue, batch), batch if together else 1)
    return most


def _run(
    app: Celery, most: Mapping[str, int]
) -> Callable[[Sequence[ConsumedMessage], Sequence[Snapshot], float], None]:
    # A worker that takes fusions together fuses what it has completed, without a message.
    fuses = most.get(QUEUE_FUSION, 1) > 1

    def run(messages: Sequence[ConsumedMessage], joined: Sequence[Snapshot], joined_s: float) -> None:
        if joined:
            end_joined(app.resources, joined, by=FUSION_WORKER, joined_s=joined_s)
        parts = [
            _part(message.started, **message.arguments) for message in messages if message.started is not None
        ]
        together = [part for part in parts if not is_costly(part.started.plan)]
        # Each costly part is answered by itself, after the others.
        alone = [[part] for part in parts if is_costly(part.started.plan)]
        for group in [together, *alone] if together else alone:
            reports = _reports(app.resources, group)
            if fuses:
                _fuse(app, reports, joined_s)
            else:
                app.backend.report_all(reports)

    return run


def _part(
    started: Started, /, request_id: str, branch: str, attempt: int = 1, v: int = WIRE_VERSION, **_: object
) -> Part:
    """Arguments of newer versions are ignored."""
    return Part(str(request_id), str(branch), started, attempt, v)


def _fuse(app: Celery, parts: Sequence[_AnsweredPart], begun_s: float) -> None:
    """`begun_s`: by the monotonic clock, before the parts were started."""
    joined_s = time.monotonic()
    whole, unreported, others = _partitioned(parts, (joined_s - begun_s) * 1000)
    try:
        joined = app.backend.report_and_join(others) if others else []
        end_joined(app.resources, [*whole, *joined], by=FUSION_WORKER, joined_s=joined_s)
    except (WorkerShutdown, WorkerTerminate):
        raise
    except BaseException:
        # Only this process has the unreported results.  Reports of a request that has ended change nothing.
        if unreported:
            app.backend.report_all(unreported)
        raise


def _partitioned(
    parts: Sequence[_AnsweredPart], searched_ms: float
) -> tuple[list[Snapshot], list[_AnsweredPart], list[_AnsweredPart]]:
    """The requests that end without a report, their parts, and the parts of the others."""
    by_request: dict[str, list[_AnsweredPart]] = {}
    for part in parts:
        by_request.setdefault(part[0], []).append(part)
    whole, unreported, others = list[Snapshot](), list[_AnsweredPart](), list[_AnsweredPart]()
    for request_id, request_parts in by_request.items():
        snapshot = join_locally(
            request_id, [(result, started) for _, result, started in request_parts], searched_ms
        )
        if snapshot is None:
            others += request_parts
        else:
            whole.append(snapshot)
            unreported += request_parts
    return whole, unreported, others


def _reports(resources: Resources, parts: Sequence[Part]) -> list[_AnsweredPart]:
    """A branch result for each part, even if a package's branch raises SystemExit, with its request and what it was started with."""
    try:
        branch_results = answer_parts(resources, parts)
    except (WorkerShutdown, WorkerTerminate):
        raise
    except BaseException as error:
        log.exception("batch failed", parts=len(parts))
        if len(parts) > 1:
            return [_reports(resources, [part])[0] for part in parts]
        branch_results = [
            BranchResult.failed(parts[0].branch, Reason.ERROR, f"{type(error).__name__}: {error}")
        ]
    return [
        (
            part.request_id,
            replace(branch_result, attempt=part.attempt, worker=resources.worker_name),
            part.started,
        )
        for branch_result, part in zip(branch_results, parts, strict=True)
    ]


def register(app: Celery) -> None:
    """One task for each kind, and the fusion; `chorale_client.wire_names` has the names."""
    app.task(fuse_task, name=TASK_FUSE, bind=True, ignore_result=True, send_events=False)
    for kind in app.resources.pipeline.kinds.branches:
        app.task(
            search_task, name=TASK_SEARCH.format(kind=kind), bind=True, ignore_result=True, send_events=False
        )


def search_task(task: Any, request_id: str, branch: str, **arguments: Any) -> Report | None:
    """Start, search; the result backend reports the branch result to the ledger.  Attempt 2 is a hedge."""
    resources: Resources = task.app.resources
    started = resources.ledger.start(request_id, branch)
    if started is None:
        return None
    reports = _reports(resources, [_part(started, request_id, branch, **arguments)])
    if not is_costly(started.plan):
        return Report(reports[0][1], started)
    # A worker of bulk jobs fuses what it has completed: the message of a fusion would go where others wait.
    joined_s = time.monotonic()
    joined = task.app.backend.report_and_join(reports)
    end_joined(resources, joined, by=FUSION_WORKER, joined_s=joined_s)
    return None


def fuse_task(task: Any, request_id: str, **_: object) -> None:
    """The chord's callback; its task id is the request's id.  Does nothing if the join is not due yet, another worker has taken it, or the request has ended.

    Arguments that a newer version adds are ignored: the ledger has the whole request.
    """
    resources: Resources = task.app.resources
    joined_s = time.monotonic()
    entry = resources.ledger.join(request_id)
    if entry is not None:
        end_joined(resources, [entry], by=FUSION_WORKER, joined_s=joined_s)


HURRIED_S = 0.1
"""A part with less time left does not wait for others."""


def answer_parts(resources: Resources, parts: Sequence[Part]) -> list[BranchResult]:
    """One branch result for each part, in order."""
    begun_s = time.monotonic()
    branch_results: dict[int, BranchResult] = {}
    groups: dict[Hashable, list[tuple[int, BranchTask]]] = {}
    alike: list[BranchTask] = []
    for at, part in enumerate(parts):
        opened = open_part(resources, part, begun_s)
        if isinstance(opened, BranchResult):
            branch_results[at] = opened
            continue
        batch_key = _batch_key(resources, opened)
        alike += [opened] if batch_key is not None else []
        groups.setdefault(at if batch_key is None else batch_key, []).append((at, opened))
    if len(groups) > 1:
        _embed(resources, alike)
    for members in sorted(groups.values(), key=lambda members: min(task.ends_at_s for _, task in members)):
        places, tasks = zip(*members, strict=True)
        branch_results |= zip(places, answer_together(resources, tasks, begun_s), strict=True)
    return [branch_results[at] for at in range(len(parts))]


def can_batch(resources: TaskResources, kind: BranchKind, branch: str) -> bool:
    """Whether parts of this branch can be searched together: a language model answers each request by itself."""
    options = resources.generators.options(branch)
    return kind.can_batch and not (options is not None and options.calls_model)


def _batch_key(resources: Resources, part: BranchTask) -> Hashable | None:
    """Equal for parts that one search can answer; None for a part that is searched alone."""
    branch, request = part.branch, part.request
    kind = resources.pipeline.kinds.branches[branch.kind]
    if branch.is_costly or part.remaining_s < HURRIED_S or not can_batch(resources, kind, branch.name):
        return None
    if any(question.hypothetical_documents for question in part.questions):
        return None  # whether there was time to embed them is said of each request
    return (
        branch.name,
        branch.store,
        branch.depth,
        branch.returns_query_inputs,
        repr(branch.options),
        request.namespace,
        request.fuse_by,
        repr(part.filters),
        relaxable_filters(request),
        request.exclude_ids,
    )


def _embed(resources: Resources, parts: Sequence[BranchTask]) -> None:
    """Embed the questions of all groups in one batch; each search then finds its vectors in this process's cache."""
    kinds = resources.pipeline.kinds.branches
    dense = [part for part in parts if "questions" in kinds[part.branch.kind].needs]
    texts: dict[str, dict[str, BranchTask]] = {}
    read_parts: dict[tuple[str, str, str | None], BranchTask] = {}
    with suppress(StageFailure):  # each search meets it again, and says so
        for part in dense:
            place = (part.branch.store, part.request.namespace, part.branch.encoder)
            if (other := read_parts.setdefault(place, part)) is not part:
                part.known_encoder, part.manifest = other.known_encoder, other.manifest
            encoder_texts = texts.setdefault(part.encoder.name, {})
            encoder_texts |= {
                text: part for question_texts in part.texts_of(DENSE) for text in question_texts
            }
        for name, parts_of_texts in texts.items():
            remaining_s = min(part.remaining_s for part in parts_of_texts.values())
            resources.encoders[name].questions.embed_questions(list(parts_of_texts), timeout_s=remaining_s)
