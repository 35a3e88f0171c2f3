"""Accepting and planning: `chorale.retrieve`, and the same in the process of whoever has the pipeline at hand."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any

from celery import Celery
from chorale_client.default_time import in_its_time
from chorale_client.errors import InvalidRequest, RequestIdConflict
from chorale_client.reading import read_request, refusal, stand_in
from chorale_client.request import Request, refuse_unfinished
from chorale_client.words import TASK_RETRIEVE, WIRE_VERSION, Reason, Stage, StageStatus
from pydantic import ValidationError
from pydantic_core import from_json
from structlog import get_logger

from cache.protocol import CacheUnavailable
from fusion.answer import build_answer_tail
from fusion.bounded import bounded_tail
from fusion.fused import FusedQuestion
from models.envelope import Degradation, StageNote
from models.errors import ModelMissing
from models.plan import Plan
from tasks.request.branch_selection import fails_policy, give_back, left_out, not_asked, without
from tasks.request.ending import end_failed
from tasks.request.fanout import Fanout
from tasks.request.hedging import with_hedges
from tasks.request.planning import NotOffered, question_keys, resolve
from tasks.request.reranking import marked

if TYPE_CHECKING:
    from assembly.resources import Resources

log = get_logger("chorale.retrieve")


def plan_request(
    resources: Resources,
    fanout: Fanout,
    request: Request,
    *,
    accepted_at_ms: int,
    warnings: tuple[str, ...] = (),
) -> None:
    """Plan an accepted request and publish its chord, or end it at once: from the cache, as skipped, as failed."""
    begun_s = monotonic()
    accepted_at = datetime.fromtimestamp(accepted_at_ms / 1000, UTC)
    try:
        models = resources.fingerprints
        generation = resources.generation_or_copy(request.namespace)
    except ModelMissing as error:
        # Without the model's mark nothing may be cached; without a generation nothing is.
        models, generation = {}, None
        warnings = (*warnings, f"cache: {Reason.MODEL_MISSING}: {error}")
    try:
        plan = resolve(
            request, resources.pipeline, accepted_at=accepted_at, generation=generation, models=models
        )
    except NotOffered as error:
        end_failed(
            resources, request, Degradation(Stage.PLAN, Reason.NOT_CONFIGURED, str(error)), by="planner"
        )
        return
    plan = marked(resources, plan.model_copy(update={"warnings": (*plan.warnings, *warnings)}))
    plan, flight = _ask_cache(resources, request, plan)
    plan = plan.model_copy(
        update={"stages": (*plan.stages, StageNote(Stage.PLAN, ms=(monotonic() - begun_s) * 1000).to_wire())}
    )
    if plan.asked:
        _fan_out(resources, fanout, request, plan, flight)
        return
    fields = build_answer_tail(request, plan, {}, {}, None)
    _, tail = bounded_tail(fields, resources.settings.answer_limit_bytes)
    by = "cache" if plan.cached else "planner"
    resources.ledger.finish(request.request_id, by=by, tail=tail, is_complete=True)


def _fan_out(resources: Resources, fanout: Fanout, request: Request, plan: Plan, flight: str | None) -> None:
    """Publish the chord of the branches that are to be asked, or end at once what has failed without the others."""
    left = left_out(resources, request, plan)
    missing = left.missing
    if missing and (len(missing) == len(plan.branches) or fails_policy(request, plan, missing)):
        nothing = {index: FusedQuestion() for index in plan.asked}
        fields = build_answer_tail(request, plan, {}, nothing, None, absent=not_asked(plan, missing))
        _, tail = bounded_tail(fields, resources.settings.answer_limit_bytes)
        resources.ledger.finish(request.request_id, by="planner", tail=tail, is_complete=False)
        log.warning("not asked", request_id=request.request_id, missing=list(missing))
        outcome = "closed"
    else:
        asking = without(plan, missing) if missing else plan
        if request.hedge:
            asking = with_hedges(resources, asking)
        outcome = fanout.publish(request.request_id, asking, flight=flight)
    # Where another planner was first (`known`), the probe is this request's all the same.
    if left.probes and outcome in ("follows", "closed"):
        give_back(resources, request, left.probes)


def _ask_cache(resources: Resources, request: Request, plan: Plan) -> tuple[Plan, str | None]:
    """The plan with the answers that the cache knows, and what equal questions in flight have in common."""
    if request.cache == "bypass" or not plan.asked:
        note = StageNote(Stage.CACHE, StageStatus.SKIPPED, detail=Reason.RULE)
        return plan.model_copy(update={"stages": (*plan.stages, note.to_wire())}), None
    begun_s = monotonic()
    keys = question_keys(request, plan)
    cached: dict[int, dict[str, Any]] = {}
    warnings: tuple[str, ...] = ()
    status, detail = StageStatus.OK, None
    if request.cache == "use" and plan.generation is not None:
        try:
            found = resources.answers.get_many(list(keys.values()))
        except CacheUnavailable as error:
            warnings = (f"cache: {Reason.UNAVAILABLE}: {error}",)
            status, detail, found = StageStatus.FAILED, str(Reason.UNAVAILABLE), {}
        for index, key in keys.items():
            if key in found and (known := from_json(found[key]))["generation"] == plan.generation:
                cached[index] = known["answer"]
    ms = (monotonic() - begun_s) * 1000
    note = StageNote(Stage.CACHE, status, ms, len(keys), len(cached), detail=detail)
    flight = None
    if request.cache == "use" and len(request.questions) == 1 and not cached:
        flight = f"chorale:flight:{next(iter(keys.values()))}:{plan.generation}"
    return plan.model_copy(
        update={
            "asked": tuple(index for index in plan.asked if index not in cached),
            "cached": cached,
            "stages": (*plan.stages, note.to_wire()),
            "warnings": (*plan.warnings, *warnings),
        }
    ), flight


def submit(resources: Resources, fanout: Fanout, request: Request, *, warnings: tuple[str, ...] = ()) -> str:
    """Accept and plan in this process; returns the request's id.  The `warnings` come back in the answer.

    Raises InvalidRequest before anything is enqueued, RequestIdConflict.
    """
    try:
        refuse_unfinished(request)
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
    request = in_its_time(request, resources.pipeline.timeouts_s)
    accepted = resources.callers_ledger.accept(request)
    if accepted.is_new:
        plan_request(resources, fanout, request, accepted_at_ms=accepted.accepted_at_ms, warnings=warnings)
    return accepted.request_id


def plan_accepted(resources: Resources, fanout: Fanout, request_id: str, *, v: int = WIRE_VERSION) -> bool:
    """Plan the request if nobody did; whether the ledger knows it.  `v`: the wire version of who asks for it."""
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
    """Whoever asks for the request by its id, or `own_id` where that is none, finds what was wrong with it."""
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
    """Plan an accepted request by its id; or, called by name with a whole request, accept it first.

    A bare call without a request id gets one that follows from the task's own, so that a message delivered twice is
    one request.
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
