"""A part of the chord: start, search all questions at once, report an envelope.

A part catches every exception: a failure is an envelope with a reason.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from celery import Celery
from chorale_client.reading import read_request, refusal
from chorale_client.words import TASK_SEARCH, WIRE_VERSION, EnvelopeStatus, Reason, Stage, StageStatus
from structlog import get_logger

from assembly.resources import Resources
from branches.part import Part
from fusion.collapse import collapse_ranking
from ledger.outcomes import ended_before_its_store
from ledger.protocol import Started
from models.envelope import Envelope, StageNote
from models.errors import InvalidAnswer, StageFailure
from models.hits import Ranking
from models.plan import Plan
from tasks.celery_surface.result_backend import Report

log = get_logger("chorale.search")


def answer_part(resources: Resources, name: str, started: Started) -> Envelope:
    """Run one branch within its time; returns an envelope for any failure."""
    begun_s = time.monotonic()
    if started.left_ms <= 0:
        return Envelope.failed(name, Reason.LATE, f"taken {-started.left_ms} ms after its limit")
    part: Part | None = None
    try:
        request = read_request(started.request).request
        plan = Plan.model_validate_json(started.plan)
        branch = next(branch for branch in plan.branches if branch.name == name)
        part = Part(
            resources,
            resources.store(branch.store),
            branch,
            request,
            [request.questions[index] for index in plan.asked],
            ends_at_s=begun_s + started.left_ms / 1000,
            begun_ms=started.since_accepted_ms,
        )
        # Read before searching: if documents are indexed meanwhile, the generations differ and the answer is not cached.
        generation = part.store.generation(request.namespace, timeout_s=part.left_s)
        rankings = resources.pipeline.kinds.branches[branch.kind].search(part)
        # A package's kind or store may return anything; fusion would fail on it.
        if complaint := next(filter(None, (ranking.complaint() for ranking in rankings)), None):
            raise InvalidAnswer(complaint[:500])
        if request.fuse_by == "document":
            rankings = [collapse_ranking(ranking, branch.depth) for ranking in rankings]
        found = any(ranking.hits for ranking in rankings)
        return Envelope(
            branch=name,
            status=EnvelopeStatus.OK if found else EnvelopeStatus.EMPTY,
            rankings=tuple(rankings),
            ms=(time.monotonic() - begun_s) * 1000,
            stages=(*part.notes, _whole(part, name, begun_s, rankings)),
            generation=generation,
            degraded=tuple(part.degraded),
        )
    except StageFailure as failure:
        reason, detail = failure.reason, failure.detail
    except Exception as error:  # MemoryError too, which would make Celery end the worker
        log.exception("branch failed", branch=name)
        reason, detail = Reason.ERROR, f"{type(error).__name__}: {error}"
    stages = (*part.notes, _whole(part, name, begun_s, (), StageStatus.FAILED)) if part else ()
    envelope = Envelope.failed(name, reason, detail, ms=(time.monotonic() - begun_s) * 1000, stages=stages)
    if part and reason == Reason.UNAUTHORISED and not ended_before_its_store(envelope):
        # Logged once for each request that the breaker lets through.
        log.error("store refuses our key", branch=name, store=part.branch.store, error=detail)
    return envelope


def _whole(
    part: Part, name: str, begun_s: float, rankings: Sequence[Ranking], status: StageStatus = StageStatus.OK
) -> StageNote:
    return StageNote(
        f"{Stage.SEARCH}.{name}",
        status,
        (time.monotonic() - begun_s) * 1000,
        n_in=len(part.questions),
        n_out=sum(len(ranking.hits) for ranking in rankings),
        start_ms=part.begun_ms,
    )


def register(app: Celery) -> None:
    """One task for each kind; `chorale_client.words` has the names."""
    for kind in app.resources.pipeline.kinds.branches:
        app.task(search_task, name=TASK_SEARCH.format(kind=kind), bind=True, ignore_result=True)


def search_task(
    task: object, request_id: str, branch: str, attempt: int = 1, v: int = WIRE_VERSION, **_: object
) -> Report | None:
    """Start, search; the result backend reports the envelope to the ledger.  Attempt 2 is a hedge.

    Fields of newer versions are ignored.
    """
    resources: Resources = task.app.resources  # type: ignore[attr-defined]
    started = resources.ledger.start(request_id, branch)
    if started is None:
        return None
    if (why := refusal(v)) is not None:
        envelope = Envelope.failed(branch, Reason.NOT_CONFIGURED, f"message: {why}")
    else:
        envelope = answer_part(resources, branch, started)
    envelope = replace(envelope, attempt=attempt)
    return Report(envelope, started.accepted_at_ms)
