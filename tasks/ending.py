"""How a request ends: the snapshot of the ledger is fused, texts are fetched, and the answer is written once.

The fusion workers and the sweeper end requests in this one way; what they differ in is how much time they take.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from chorale_client.ledger import failed_tail
from chorale_client.request import Request
from chorale_client.words import Reason, Stage, StageStatus, Status
from pydantic_core import to_json
from structlog import get_logger

from cache.protocol import CacheUnavailable
from config.logging import log_stage
from fusion.answer import answer_tail, build_answer_tail
from fusion.fuse import fuse_question
from fusion.fused import FusedQuestion
from ledger.protocol import Entry
from models.documents import PassageText
from models.envelope import Degradation, Envelope, StageNote
from models.errors import StageFailure
from models.plan import Plan
from tasks.planning import question_keys

if TYPE_CHECKING:
    from tasks.resources import Resources

log = get_logger("chorale.end")

TEXTS_OF_THE_SWEEPER_S = 0.03
"""The sweeper ends what is nearly late: no text is worth an answer that comes after the deadline."""


def end_joined(resources: Resources, entry: Entry, *, by: str) -> bool:
    """Fuse a joined entry and end its request; whether this was the end that counted.

    `by` is `fusion` or `sweeper`.  Nothing that goes wrong in here leaves the request without an end.
    """
    request = Request.model_validate_json(entry.request)
    if entry.plan is None:
        why = Degradation(Stage.PLAN, Reason.NOT_STARTED, "no worker planned it in time")
        return end_failed(resources, request, why, by=by)
    plan = Plan.model_validate_json(entry.plan)
    envelopes = {name: Envelope.from_wire(name, raw) for name, raw in entry.envelopes.items()}
    try:
        fields = _compose(resources, entry, request, plan, envelopes, by)
    except Exception as error:  # any answer is better than none
        log.exception("fusion failed", request_id=entry.request_id)
        why = Degradation(Stage.FUSE, Reason.ERROR, f"{type(error).__name__}: {error}"[:500])
        return end_failed(resources, request, why, by=by)
    complete = all(
        question["status"] in (Status.COMPLETE, Status.SKIPPED) for question in fields["questions"]
    )
    took_ms = resources.ledger.finish(entry.request_id, by=by, tail=answer_tail(fields), is_complete=complete)
    if took_ms is None:
        return False
    _log(request, fields, took_ms)
    if plan.cacheable:
        _keep(resources, request, plan, envelopes.values(), fields)
    return True


def end_failed(resources: Resources, request: Request, why: Degradation, *, by: str) -> bool:
    """End a request that came to nothing."""
    tail = failed_tail(request, where=why.where, reason=Reason(why.reason), detail=why.detail)
    took_ms = resources.ledger.finish(request.request_id, by=by, tail=tail, is_complete=False)
    if took_ms is not None:
        log.warning(
            "failed", request_id=request.request_id, where=why.where, reason=why.reason, detail=why.detail
        )
    return took_ms is not None


def _compose(
    resources: Resources,
    entry: Entry,
    request: Request,
    plan: Plan,
    envelopes: Mapping[str, Envelope],
    by: str,
) -> dict[str, Any]:
    started_s = time.monotonic()
    fused = {
        index: fuse_question(plan, envelopes, position, request, clock=time.monotonic)
        for position, index in enumerate(plan.asked)
    }
    left_s = (entry.left_ms - plan.finish_reserve_ms / 2) / 1000 - (time.monotonic() - started_s)
    if by == "sweeper":
        left_s = min(left_s, TEXTS_OF_THE_SWEEPER_S)
    texts, fetch_note, missing = _fetch(resources, request, plan, fused, left_s)
    degraded = [missing] if missing else []
    if by == "sweeper":
        detail = "no fusion worker ended it in time; answered by the sweeper"
        reason = Reason.NOT_STARTED if entry.state != "fusing" else Reason.TIMEOUT
        degraded.append(Degradation(Stage.FUSE, reason, detail))
    fields = build_answer_tail(
        request,
        plan,
        envelopes,
        fused,
        texts,
        absent={
            branch.name: _absence(entry, branch.name)
            for branch in plan.branches
            if branch.name not in envelopes
        },
        degraded=degraded,
        stages=[fetch_note] if fetch_note else [],
        took_ms=entry.since_accepted_ms + (time.monotonic() - started_s) * 1000,
        clock=time.monotonic,
    )
    _place(fields["stages"], entry.since_accepted_ms)
    return fields


def _absence(entry: Entry, branch: str) -> Degradation:
    where = f"{Stage.SEARCH}.{branch}"
    if branch in entry.started:
        return Degradation(where, Reason.TIMEOUT, "began and had not answered when the waiting ended")
    return Degradation(where, Reason.NOT_STARTED, "no worker took it before the waiting ended")


def _place(stages: list[dict[str, Any]], begun_ms: int) -> None:
    """Give the stages of the fusion, which follow one another, their places on the waterfall."""
    at_ms = float(begun_ms)
    sequence = {Stage.COLLAPSE, Stage.FUSE, Stage.BOOST, Stage.FOLD, Stage.FETCH, Stage.SNIPPET}
    for stage in stages:
        if stage["stage"] in sequence and "start_ms" not in stage:
            stage["start_ms"] = round(at_ms, 3)
            at_ms += stage["ms"]


def _fetch(
    resources: Resources,
    request: Request,
    plan: Plan,
    fused: Mapping[int, FusedQuestion],
    left_s: float,
) -> tuple[dict[str, PassageText] | None, StageNote | None, Degradation | None]:
    """Titles and texts of the hits that will be shown, from the store that found each."""
    if set(request.include) <= {"ids", "explanation"}:
        return None, None, None
    store_of = {branch.name: branch.store for branch in plan.branches}
    wanted: dict[str, list[str]] = {}
    for one in fused.values():
        for hit in one.hits:
            wanted.setdefault(store_of[hit.found_by[0]], []).append(hit.passage_id)
    started_s = time.monotonic()
    texts: dict[str, PassageText] = {}
    count = sum(len(passage_ids) for passage_ids in wanted.values())
    try:
        for store, passage_ids in wanted.items():
            if left_s <= 0:
                raise TimeoutError
            texts |= resources.store(store).texts(plan.namespace, passage_ids, timeout_s=left_s)
    except (StageFailure, TimeoutError) as failure:
        reason = failure.reason if isinstance(failure, StageFailure) else Reason.BUDGET
        ms = (time.monotonic() - started_s) * 1000
        note = StageNote(Stage.FETCH, StageStatus.FAILED, ms, count, len(texts), detail=str(reason))
        return texts or None, note, Degradation(Stage.FETCH, reason, str(failure) or "no time left for texts")
    ms = (time.monotonic() - started_s) * 1000
    return texts, StageNote(Stage.FETCH, StageStatus.OK, ms, count, len(texts)), None


def _keep(
    resources: Resources,
    request: Request,
    plan: Plan,
    envelopes: Iterable[Envelope],
    fields: Mapping[str, Any],
) -> None:
    """Cache the whole answers, if the corpus stayed the same from the plan until now."""
    generations = {plan.generation, *(envelope.generation for envelope in envelopes)}
    if plan.generation is None or len(generations) > 1:
        return
    values = {
        key: to_json({"generation": plan.generation, "answer": fields["questions"][index]})
        for index, key in question_keys(request, plan).items()
        if fields["questions"][index]["status"] == Status.COMPLETE
    }
    try:
        if values and resources.generation(plan.namespace) == plan.generation:
            resources.answers.put_many(values, ttl_s=resources.settings.cache_ttl_s)
    except CacheUnavailable as error:
        log.warning("answer not cached", request_id=request.request_id, error=str(error))


def _log(request: Request, fields: Mapping[str, Any], took_ms: int) -> None:
    for stage in fields["stages"]:
        log_stage(
            stage["stage"],
            request_id=request.request_id,
            correlation_id=request.correlation_id,
            ms=stage["ms"],
            n_in=stage.get("n_in"),
            n_out=stage.get("n_out"),
            status=stage["status"],
            reason=stage.get("detail"),
        )
    log.info(
        "ended",
        request_id=request.request_id,
        correlation_id=request.correlation_id,
        status=fields["status"],
        degraded=[f"{one['where']} {one['reason']}" for one in fields["degraded"]],
        ms=took_ms,
    )
