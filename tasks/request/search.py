"""A part of the chord: start, search all questions at once, report an envelope.

A part catches every exception: a failure is an envelope with a reason.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

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

_CONCERNS_ALL = frozenset(
    {Reason.UNAVAILABLE, Reason.UNAUTHORISED, Reason.BAD_INDEX, Reason.NOT_CONFIGURED, Reason.MODEL_MISSING}
)
"""Reasons for which parts that are alike fail alike."""


def answer_part(resources: Resources, name: str, started: Started) -> Envelope:
    """Run one branch within its time; returns an envelope for any failure."""
    begun_s = time.monotonic()
    part = open_part(resources, name, started, begun_s)
    return part if isinstance(part, Envelope) else answer_together(resources, [part], begun_s)[0]


def open_part(resources: Resources, name: str, started: Started, begun_s: float) -> Part | Envelope:
    """What a branch searches for one request, or the envelope of its failure.  `begun_s` is by the monotonic clock."""
    if started.left_ms <= 0:
        return Envelope.failed(name, Reason.LATE, f"taken {-started.left_ms} ms after its limit")
    try:
        request = read_request(started.request).request
        plan = Plan.model_validate_json(started.plan)
        branch = next(branch for branch in plan.branches if branch.name == name)
        return Part(
            resources,
            resources.store(branch.store),
            branch,
            request,
            [request.questions[index] for index in plan.asked],
            ends_at_s=begun_s + started.left_ms / 1000,
            begun_ms=started.since_accepted_ms,
        )
    except StageFailure as failure:
        return Envelope.failed(name, failure.reason, failure.detail)
    except Exception as error:
        log.exception("branch failed", branch=name)
        return Envelope.failed(name, Reason.ERROR, f"{type(error).__name__}: {error}")


def answer_together(resources: Resources, parts: Sequence[Part], begun_s: float) -> list[Envelope]:
    """One search for parts that are alike (see `search_together.likeness`); an envelope for each.

    If the search fails for a reason that may concern one of them alone, each part is searched by itself.
    """
    whole = parts[0] if len(parts) == 1 else _merged(parts)
    try:
        return _searched(resources, parts, whole, begun_s)
    except StageFailure as failure:
        if len(parts) > 1 and failure.reason not in _CONCERNS_ALL:
            return [answer_together(resources, [part], begun_s)[0] for part in parts]
        reason, detail = failure.reason, failure.detail
    except Exception as error:  # MemoryError too, which would make Celery end the worker
        if len(parts) > 1:
            log.warning("searched one by one", branch=whole.branch.name, error=str(error)[:200])
            return [answer_together(resources, [part], begun_s)[0] for part in parts]
        log.exception("branch failed", branch=whole.branch.name)
        reason, detail = Reason.ERROR, f"{type(error).__name__}: {error}"
    return [_failed(part, whole, reason, detail, begun_s) for part in parts]


def _merged(parts: Sequence[Part]) -> Part:
    """The questions of all parts as one part, which ends when the first of them does."""
    return replace(
        parts[0],
        questions=[question for part in parts for question in part.questions],
        ends_at_s=min(part.ends_at_s for part in parts),
        notes=[],
        degraded=[],
    )


def _searched(resources: Resources, parts: Sequence[Part], whole: Part, begun_s: float) -> list[Envelope]:
    branch, request = whole.branch, whole.request
    # Read before searching: if documents are indexed meanwhile, the generations differ and the answer is not cached.
    generation = whole.generation = whole.store.generation(request.namespace, timeout_s=whole.left_s)
    rankings = resources.pipeline.kinds.branches[branch.kind].search(whole)
    # A package's kind or store may return anything; fusion would fail on it.
    if complaint := next(filter(None, (ranking.complaint() for ranking in rankings)), None):
        raise InvalidAnswer(complaint[:500])
    if len(parts) > 1 and len(rankings) != len(whole.questions):
        raise InvalidAnswer(f"{len(rankings)} rankings for {len(whole.questions)} questions")
    if request.fuse_by == "document":
        rankings = [collapse_ranking(ranking, branch.depth) for ranking in rankings]
    ms, rest = (time.monotonic() - begun_s) * 1000, iter(rankings)
    envelopes = []
    for part in parts:
        own = tuple(rest if len(parts) == 1 else islice(rest, len(part.questions)))
        envelopes.append(
            Envelope(
                branch=branch.name,
                status=EnvelopeStatus.OK if any(ranking.hits for ranking in own) else EnvelopeStatus.EMPTY,
                rankings=own,
                ms=ms,
                stages=(*_own_notes(part, whole), _whole_note(part, ms, own)),
                generation=generation,
                degraded=tuple(whole.degraded),
            )
        )
    return envelopes


def _failed(part: Part, whole: Part, reason: Reason, detail: str, begun_s: float) -> Envelope:
    ms = (time.monotonic() - begun_s) * 1000
    stages = (*_own_notes(part, whole), _whole_note(part, ms, (), StageStatus.FAILED))
    envelope = Envelope.failed(part.branch.name, reason, detail, ms=ms, stages=stages)
    if reason == Reason.UNAUTHORISED and not ended_before_its_store(envelope):
        # Logged once for each request that the breaker lets through.
        log.error("store refuses our key", branch=part.branch.name, store=part.branch.store, error=detail)
    return envelope


def _own_notes(part: Part, whole: Part) -> list[StageNote]:
    if part is whole:
        return whole.notes
    count, own = len(whole.questions), len(part.questions)
    return [replace(note, n_in=own) if note.n_in == count else note for note in whole.notes]


def _whole_note(
    part: Part, ms: float, rankings: Sequence[Ranking], status: StageStatus = StageStatus.OK
) -> StageNote:
    return StageNote(
        f"{Stage.SEARCH}.{part.branch.name}",
        status,
        ms,
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
