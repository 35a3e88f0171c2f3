"""Accepting and planning: `chorale.retrieve`, and the same in the process of whoever has the pipeline at hand."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any

from celery import Celery
from chorale_client.errors import InvalidRequest, RequestIdConflict
from chorale_client.request import Request, refuse_unfinished
from chorale_client.words import TASK_RETRIEVE, Reason, Stage, StageStatus
from pydantic import ValidationError
from pydantic_core import from_json
from structlog import get_logger

from cache.protocol import CacheUnavailable
from fusion.answer import answer_tail, build_answer_tail
from models.envelope import Degradation, StageNote
from models.plan import Plan
from tasks.ending import end_failed
from tasks.fanout import Fanout
from tasks.planning import UnknownName, question_keys, resolve

if TYPE_CHECKING:
    from tasks.resources import Resources

log = get_logger("chorale.retrieve")


def plan_request(resources: Resources, fanout: Fanout, request: Request, *, accepted_at_ms: int) -> None:
    """Plan an accepted request and publish its chord, or end it at once: from the cache, as skipped, as failed."""
    begun_s = monotonic()
    accepted_at = datetime.fromtimestamp(accepted_at_ms / 1000, UTC)
    try:
        plan = resolve(
            request,
            resources.pipeline,
            accepted_at=accepted_at,
            generation=resources.generation(request.namespace),
            models=resources.fingerprints,
        )
    except UnknownName as error:
        end_failed(
            resources, request, Degradation(Stage.PLAN, Reason.NOT_CONFIGURED, str(error)), by="planner"
        )
        return
    plan, flight = _ask_cache(resources, request, plan)
    plan = plan.model_copy(
        update={"stages": (*plan.stages, StageNote(Stage.PLAN, ms=(monotonic() - begun_s) * 1000).to_wire())}
    )
    if plan.asked and request.needs_retrieval:
        fanout.publish(request.request_id, plan, flight=flight)
        return
    fields = build_answer_tail(request, plan, {}, {}, None)
    by = "cache" if plan.cached else "planner"
    resources.ledger.finish(request.request_id, by=by, tail=answer_tail(fields), is_complete=True)


def _ask_cache(resources: Resources, request: Request, plan: Plan) -> tuple[Plan, str | None]:
    """The plan with the answers that the cache knows, and what equal questions in flight have in common."""
    if request.cache == "bypass" or not plan.asked or not request.needs_retrieval:
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


def submit(resources: Resources, fanout: Fanout, request: Request) -> str:
    """Accept and plan in this process; returns the request's id.

    Raises InvalidRequest before anything is enqueued, RequestIdConflict.
    """
    try:
        refuse_unfinished(request)
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
    accepted = resources.callers_ledger.accept(request)
    if accepted.is_new:
        plan_request(resources, fanout, request, accepted_at_ms=accepted.accepted_at_ms)
    return accepted.request_id


def register(app: Celery) -> None:
    app.task(retrieve_task, name=TASK_RETRIEVE, bind=True, ignore_result=True)


def retrieve_task(task: Any, request_id: str | None = None, request: Any = None) -> str | None:
    """Plan an accepted request by its id; or, called by name with a whole request, accept it first.

    A bare call without a request id gets one that follows from the task's own, so that a message delivered twice is
    one request.
    """
    resources: Resources = task.app.resources
    fanout: Fanout = task.app.fanout
    if request is not None:
        given = {"questions": [request]} if isinstance(request, str) else dict(request)
        given.setdefault("request_id", request_id or str(uuid.uuid5(uuid.NAMESPACE_OID, task.request.id)))
        try:
            whole = Request.model_validate(given)
            return submit(resources, fanout, whole)
        except ValidationError as error:
            log.error(
                "invalid request", task_id=task.request.id, error=str(InvalidRequest.from_validation(error))
            )
        except (InvalidRequest, RequestIdConflict) as error:
            log.error("invalid request", task_id=task.request.id, error=str(error))
        return None
    if request_id is not None and (entry := resources.ledger.load(request_id)) is not None:
        if entry.state == "accepted":
            accepted = Request.model_validate_json(entry.request)
            try:
                refuse_unfinished(accepted)
            except ValueError as error:
                why = Degradation(Stage.PLAN, Reason.NOT_CONFIGURED, str(error))
                end_failed(resources, accepted, why, by="planner")
            else:
                plan_request(resources, fanout, accepted, accepted_at_ms=entry.accepted_at_ms)
        return request_id
    return None
