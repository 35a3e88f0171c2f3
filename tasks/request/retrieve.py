"""Accepting and planning a request: the task `chorale.retrieve`, and the same for processes that have the pipeline."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from celery import Celery
from chorale_client.default_time import in_its_time
from chorale_client.errors import InvalidRequest, RequestIdConflict
from chorale_client.keys import CACHE
from chorale_client.ledger import Accepted
from chorale_client.reading import read_request, refusal, stand_in
from chorale_client.request import Request, refuse_unfinished
from chorale_client.words import TASK_RETRIEVE, WIRE_VERSION, Reason, Stage
from pydantic import ValidationError
from redis.exceptions import ResponseError
from structlog import get_logger

from assembly.resources import Resources
from fusion.answer import Pages, build_answer_tail
from fusion.answered import BranchAnswers
from fusion.bounded import bounded_tail
from fusion.fused_hits import FusedQuestion
from models.envelope import Degradation, StageNote
from models.errors import ModelMissing
from models.plan import Plan
from tasks.request.answer_cache import with_cached
from tasks.request.branch_selection import (
    breakers_of,
    fails_policy,
    reasons_not_asked,
    release_probes,
    select_branches,
    without_branches,
)
from tasks.request.ending import end_failed
from tasks.request.fanout import Fanout
from tasks.request.hedging import with_second_messages
from tasks.request.planning import NotOffered, resolve
from tasks.request.reranking import with_reranker_fingerprint

log = get_logger("chorale.retrieve")


def plan_request(
    resources: Resources,
    fanout: Fanout,
    request: Request,
    *,
    accepted_at_ms: int,
    warnings: tuple[str, ...] = (),
) -> None:
    """Plan an accepted request and publish its chord, or end it at once: cached, skipped or failed."""
    begun_s = monotonic()
    try:
        models = resources.fingerprints
        generation = resources.generations.in_redis_or_copied(request.namespace)
    except ModelMissing as error:
        # Answers may be cached only with the model's fingerprint; a plan without a generation caches nothing.
        models, generation = {}, None
        warnings = (*warnings, f"cache: {Reason.MODEL_MISSING}: {error}")
    try:
        plan = _resolved(
            resources, request, accepted_at_ms, generation=generation, models=models, warnings=warnings
        )
    except NotOffered as error:
        end_failed(
            resources, request, Degradation(Stage.PLAN, Reason.NOT_CONFIGURED, str(error)), by="planner"
        )
        return
    plan, flight, _ = with_cached(resources, request, plan)
    _fan_out(resources, fanout, request, _timed(plan, begun_s), flight)


def _resolved(resources: Resources, request: Request, accepted_at_ms: int, **known: Any) -> Plan:
    """The plan before the cache is asked; raises NotOffered."""
    accepted_at = datetime.fromtimestamp(accepted_at_ms / 1000, UTC)
    plan = resolve(request, resources.pipeline, accepted_at=accepted_at, **known)
    return with_reranker_fingerprint(resources, plan)


def _timed(plan: Plan, begun_s: float) -> Plan:
    note = StageNote(Stage.PLAN, ms=(monotonic() - begun_s) * 1000)
    return plan.model_copy(update={"stages": (*plan.stages, note.to_wire())})


def _end_unasked(resources: Resources, found: BranchAnswers, *, by: str, is_complete: bool = True) -> None:
    """End a request of which no branch is asked."""
    fused = {index: FusedQuestion() for index in found.plan.asked}
    fields = build_answer_tail(found, Pages(fused))
    _, tail = bounded_tail(fields, resources.settings.answer_limit_bytes)
    resources.ledger.finish(found.request.request_id, by=by, tail=tail, is_complete=is_complete)


def _fan_out(resources: Resources, fanout: Fanout, request: Request, plan: Plan, flight: str | None) -> None:
    """Publish the chord of the branches that are asked, or end a request that asks none or has failed without the others."""
    if not plan.asked:
        _end_unasked(resources, BranchAnswers(request, plan), by="cache" if plan.cached else "planner")
        return
    left = select_branches(resources, request, plan)
    missing = left.missing
    if missing and (len(missing) == len(plan.branches) or fails_policy(request, plan, missing)):
        found = BranchAnswers(request, plan, absent=reasons_not_asked(plan, missing))
        _end_unasked(resources, found, by="planner", is_complete=False)
        log.warning("not asked", request_id=request.request_id, missing=list(missing))
        outcome = "closed"
    else:
        asking = without_branches(plan, missing) if missing else plan
        asking = with_second_messages(resources, asking, hedge=request.hedge)
        outcome = fanout.publish(request.request_id, asking, flight=flight)
    # After `known` (another planner was first) this request keeps its probe.
    if left.probes and outcome in ("follows", "closed"):
        release_probes(resources, request, left.probes)


def submit(resources: Resources, fanout: Fanout, request: Request, *, warnings: tuple[str, ...] = ()) -> str:
    """Accept and plan in this process; returns the request's id.  The answer repeats the `warnings`.

    Raises InvalidRequest and RequestIdConflict, before anything is enqueued.
    """
    try:
        refuse_unfinished(request)
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
    request = in_its_time(request, resources.pipeline.timeouts_s)
    accepted, is_planned = _submit_planned(resources, fanout, request, warnings)
    if accepted.is_new and not is_planned:
        plan_request(resources, fanout, request, accepted_at_ms=accepted.accepted_at_ms, warnings=warnings)
    return accepted.request_id


def _submit_planned(
    resources: Resources, fanout: Fanout, request: Request, warnings: tuple[str, ...]
) -> tuple[Accepted, bool]:
    """Accept the request, and publish its chord in the same step or answer from the cache; returns whether it did."""
    begun_s, ledger = monotonic(), resources.callers_ledger
    plan = _plan_ahead(resources, request, warnings)
    if plan is None:
        return ledger.accept(request), False
    uncached, flight, keys = with_cached(resources, request, plan, {})
    asking = with_second_messages(resources, _timed(uncached, begun_s), hedge=request.hedge)
    accepted, outcome, found = fanout.submit(ledger, request, asking, flight, [CACHE + key for key in keys])
    if found:
        plan, flight, _ = with_cached(resources, request, plan, dict(zip(keys, found, strict=True)))
        _fan_out(resources, fanout, request, _timed(plan, begun_s), flight)
    return accepted, bool(outcome or found)


def _plan_ahead(resources: Resources, request: Request, warnings: tuple[str, ...]) -> Plan | None:
    """The plan of a request that is not accepted yet, for the corpus' last known generation.

    None if only a request that was accepted can be planned: a breaker is open, a queue is overloaded, nothing is asked,
    or generation or model are not known.
    """
    generation = resources.generations.agreed.get(request.namespace)
    try:
        look = resources.breakers.look(
            name for branch in resources.pipeline.branches for name in breakers_of(branch)
        )
        if generation is None or not look.is_well:
            return None
        known = {"generation": generation, "models": resources.fingerprints, "warnings": warnings}
        plan = _resolved(resources, request, look.now_ms, **known)
    except (ResponseError, ModelMissing, NotOffered):
        return None
    return plan if plan.asked and plan.generation == generation else None


def plan_accepted(resources: Resources, fanout: Fanout, request_id: str, *, v: int = WIRE_VERSION) -> bool:
    """Plan the request if nobody did; returns whether the ledger knows it.  `v` is the caller's wire version."""
    entry = resources.ledger.load(request_id)
    if entry is None:
        return False
    if entry.state != "accepted":
        return True
    try:
        if (why := refusal(v)) is not None:
            raise InvalidRequest(f"message: {why}")
        read = read_request(entry.request)
        refuse_unfinished(read.request)
    except ValueError as error:
        _fail_unread(resources, stand_in(request_id, entry.request), error)
    else:
        plan_request(
            resources, fanout, read.request, accepted_at_ms=entry.accepted_at_ms, warnings=read.warnings
        )
    return True


def _answer_unread(resources: Resources, given: Mapping[str, Any], own_id: str, error: ValueError) -> None:
    """End an unreadable request as `failed`, under its own id or, if it has no valid one, under `own_id`."""
    try:
        stands_in = stand_in(given["request_id"], given)
    except ValidationError:
        stands_in = stand_in(own_id, given)
    try:
        accepted = resources.callers_ledger.accept(stands_in)
    except RequestIdConflict:
        return  # it is another request's
    if accepted.is_new:
        _fail_unread(resources, stands_in, error)


def _fail_unread(resources: Resources, stands_in: Request, error: ValueError) -> None:
    why = Degradation(Stage.PLAN, Reason.NOT_CONFIGURED, str(error)[:500])
    end_failed(resources, stands_in, why, by="planner")


def register(app: Celery) -> None:
    app.task(retrieve_task, name=TASK_RETRIEVE, bind=True, ignore_result=True)


def retrieve_task(
    task: Any, request_id: str | None = None, request: Any = None, v: int = WIRE_VERSION, **_: object
) -> str | None:
    """Plan an accepted request by its id; a call with a whole `request` accepts it first.

    A call without a request id gets one derived from the task id, so that a message delivered twice is one request.
    """
    resources: Resources = task.app.resources
    fanout: Fanout = task.app.fanout
    if request is not None:
        questions = [request] if isinstance(request, str) else request
        given = dict(request) if isinstance(request, Mapping) else {"questions": questions}
        own_id = str(uuid.uuid5(uuid.NAMESPACE_OID, task.request.id))
        given.setdefault("request_id", request_id or own_id)
        try:
            read = read_request(given)
            return submit(resources, fanout, read.request, warnings=read.warnings)
        except (InvalidRequest, RequestIdConflict) as error:
            log.error("invalid request", task_id=task.request.id, error=str(error))
            if isinstance(error, InvalidRequest):
                _answer_unread(resources, given, own_id, error)
        return None
    if request_id is not None and plan_accepted(resources, fanout, request_id, v=v):
        return request_id
    return None
