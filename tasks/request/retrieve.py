"""Accepting and planning a request: the task `chorale.retrieve`, and the same for processes that have the pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from types import MappingProxyType
from typing import Any

from celery import Celery
from celery.exceptions import Ignore
from chorale_client.default_timeout import with_default_timeout
from chorale_client.errors import InvalidRequest, RequestIdConflict, display_name
from chorale_client.keys import CACHE
from chorale_client.request import Request
from chorale_client.request_factory import check_fields, request_json
from chorale_client.tracing import valid_traceparent
from chorale_client.wire_names import TASK_RETRIEVE, WIRE_VERSION, Reason, Stage, Warned
from chorale_client.wire_reader import placeholder_request, read_request, refusal
from pydantic import ValidationError
from redis.exceptions import ResponseError
from structlog import get_logger

from fusion.answer import Pages, answer_fields, size_limited
from fusion.branch_results import BranchAnswers
from fusion.fused_hits import FusedQuestion
from ledger.protocol import End
from models.branch_result import Degradation, StageNote
from models.errors import NotOffered, StageFailure, WrongDeclaration
from models.plan import BranchPlan, FusionPlan, Plan
from tasks.callbacks.linked_tasks import is_followed, linked_tasks
from tasks.callbacks.request_ends import check_callbacks
from tasks.celery_internals.result_backend import id_of_task
from tasks.request.fanout import Fanout
from tasks.request.finishing import end_failed
from tasks.request.planning.answer_cache import CacheLookup, look_up
from tasks.request.planning.branch_selection import (
    breakers_of,
    fails_policy,
    release_probes,
    select_branches,
    skip_reasons,
    with_second_messages,
)
from tasks.request.planning.cost import placed_branches
from tasks.request.planning.live_pairs import is_drawn
from tasks.request.planning.plans import built, resolve
from tasks.wiring.resources import Resources

log = get_logger("chorale.retrieve")


def submit(resources: Resources, fanout: Fanout, request: Request, *, warnings: tuple[str, ...] = ()) -> str:
    """Accept and plan in this process; returns the request's id.  The answer repeats the `warnings`.

    Raises InvalidRequest and RequestIdConflict, before anything is enqueued.
    """
    try:
        check_callbacks(request, resources.settings)
    except WrongDeclaration as error:
        raise InvalidRequest(str(error)) from None
    request = with_default_timeout(request, resources.pipeline.timeouts_s)
    return _Planner(resources, fanout, request, request_json(request).encode(), warnings).submit()


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
        check_callbacks(read.request, resources.settings)
    except (ValueError, WrongDeclaration) as error:
        _end_refused(resources, placeholder_request(request_id, entry.request), error)
    else:
        planner = _Planner(resources, fanout, read.request, entry.request, read.warnings)
        planner.plan_request(entry.accepted_at_ms)
    return True


@dataclass(frozen=True, slots=True)
class _Planner:
    """Plans one request, and publishes its chord or ends it."""

    resources: Resources
    fanout: Fanout
    request: Request
    text: bytes
    """The request as the ledger has it."""
    warnings: tuple[str, ...]
    begun_s: float = field(default_factory=monotonic)

    def submit(self) -> str:
        """Accept and plan the request, in one step if it can be planned before it is accepted."""
        ledger, request, is_planned = self.resources.callers_ledger, self.request, False
        if (plan := self._plan_ahead()) is None:
            accepted = ledger.accept(request)
        else:
            lookup = look_up(self.resources, request, plan, {})
            branches = placed_branches(self.resources, request, plan, plan.searched)
            asking = self._built(
                plan, lookup, with_second_messages(self.resources, branches, hedge=self.request.hedge)
            )
            keys = [CACHE + key for key in lookup.keys]
            accepted, outcome, stored = self.fanout.submit(
                ledger, request, asking, lookup.coalescing_key, keys
            )
            if stored:
                known = dict(zip(lookup.keys, stored, strict=True))
                self._fan_out(plan, look_up(self.resources, request, plan, known))
            is_planned = bool(outcome or stored)
        if accepted.is_new and not is_planned:
            self.plan_request(accepted.accepted_at_ms)
        return accepted.request_id

    def _plan_ahead(self) -> Plan | None:
        """The plan of a request that is not accepted yet, for the corpus' last known generation.

        None if only a request that was accepted can be planned: a breaker is open, a queue is overloaded, nothing is asked,
        or generation or model are not known.
        """
        resources = self.resources
        generation = resources.generations.agreed.get(self.request.namespace)
        branches = resources.pipeline.branches
        try:
            loads = resources.breakers.read(name for branch in branches for name in breakers_of(branch))
            if generation is None or not loads.is_well:
                return None
            models = resources.fingerprints
            plan = self._resolved(loads.now_ms, generation, models, self.warnings)
        except (ResponseError, StageFailure, NotOffered):
            return None
        return plan if plan.searched and plan.generation == generation else None

    def plan_request(self, accepted_at_ms: int) -> None:
        """Plan an accepted request and publish its chord, or end it at once: cached, skipped or failed."""
        resources, request, warnings = self.resources, self.request, self.warnings
        try:
            models = resources.fingerprints
            generation = resources.generations.in_redis_or_copied(request.namespace)
        except StageFailure as error:
            # Answers may be cached only with the model's fingerprint; a plan without a generation caches nothing.
            models, generation = {}, None
            warnings = (*warnings, f"cache: {error.reason}: {error}")
        try:
            plan = self._resolved(accepted_at_ms, generation, models, warnings)
        except NotOffered as error:
            _end_refused(resources, request, error)
            return
        self._fan_out(plan, look_up(resources, request, plan))

    def _resolved(
        self,
        accepted_at_ms: int,
        generation: int | None,
        models: Mapping[str, str],
        warnings: tuple[str, ...],
    ) -> Plan:
        """The plan before the cache is asked, with the rival of a request that is interleaved.  Raises NotOffered."""
        known = accepted_at_ms, generation, models
        resources, request, rival = self.resources, self.request, None
        declared = resources.pipeline.interleaving
        configuration = request.configuration or resources.pipeline.default_configuration
        if declared is not None and is_drawn(request, configuration, declared):
            rivals = request.model_copy(update={"configuration": declared.b})
            with suppress(NotOffered):  # the request names a branch that B does not ask
                rival = resolve_plan(resources, rivals, *known)
        return resolve_plan(resources, request, *known, warnings=warnings, rival=rival)

    def _fan_out(self, plan: Plan, lookup: CacheLookup) -> None:
        """Publish the chord, or finish now if no branch runs, or if one that decides the request cannot run."""
        resources, request = self.resources, self.request
        uncached = [index for index in plan.searched if index not in lookup.cached]
        if not uncached:
            answers = BranchAnswers(request, self._built(plan, lookup, plan.branches))
            self._end(answers, by="cache" if lookup.cached else "planner")
            return
        branches = placed_branches(resources, request, plan, uncached)
        selection = select_branches(resources, request, branches)
        missing = selection.missing
        if missing and (len(missing) == len(branches) or fails_policy(request, branches, missing)):
            absent = skip_reasons(branches, missing)
            answers = BranchAnswers(request, self._built(plan, lookup, branches), absent=absent)
            self._end(answers, by="planner", is_complete=False)
            log.warning("not asked", request_id=request.request_id, missing=list(missing))
            outcome = "closed"
        else:
            branches = tuple(branch for branch in branches if branch.name not in missing)
            asking = self._built(
                plan,
                lookup,
                with_second_messages(self.resources, branches, hedge=self.request.hedge),
                missing,
            )
            outcome = self.fanout.publish(
                request.request_id, asking, request=self.text, coalescing_key=lookup.coalescing_key
            )
        # After `known` (another planner was first) this request keeps its probe.
        if selection.probes and outcome in ("follows", "closed"):
            release_probes(resources, request, selection.probes)

    def _built(
        self,
        plan: Plan,
        lookup: CacheLookup,
        branches: tuple[BranchPlan, ...],
        missing: Mapping[str, Degradation] = MappingProxyType({}),
    ) -> Plan:
        ms = (monotonic() - self.begun_s) * 1000
        return built(plan, lookup, branches, missing, notes=[StageNote(Stage.PLAN, ms=ms)])

    def _end(self, answers: BranchAnswers, *, by: str, is_complete: bool = True) -> None:
        """End a request that needs no branch."""
        fields = answer_fields(answers, Pages({index: FusedQuestion() for index in answers.plan.searched}))
        _, body = size_limited(fields, self.resources.settings.answer_limit_bytes)
        # The answer has what the cache gave.
        plan = answers.plan.model_copy(update={"cached": {index: {} for index in answers.plan.cached}})
        end = End(self.request.request_id, body, is_complete, plan=plan.to_json())
        self.resources.ledger.finish_all([end], by=by)


def resolve_plan(
    resources: Resources,
    request: Request,
    accepted_at_ms: int,
    generation: int | None,
    models: Mapping[str, str],
    *,
    warnings: tuple[str, ...] = (),
    rival: FusionPlan | None = None,
) -> Plan:
    """The plan before the cache is asked; raises NotOffered."""
    rules = resources.rules
    return resolve(
        request,
        resources.pipeline,
        accepted_at=datetime.fromtimestamp(accepted_at_ms / 1000, UTC),
        generation=generation,
        models=models,
        warnings=(*warnings, *rules.warnings(request.namespace)),
        rules=rules.of(request.namespace),
        rival=rival,
        fingerprint_of=lambda reranker: resources.reranker(reranker).fingerprint,
    )


def answer_unread(
    resources: Resources, task_id: object, error: ValueError, fields: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """End an unreadable request as `failed`, under its own id or, if it has no valid one, under the task's."""
    own_id = id_of_task(task_id)
    try:
        placeholder = placeholder_request(fields.get("request_id", own_id), fields)
    except ValidationError:
        placeholder = placeholder_request(own_id, fields)
    placeholder = placeholder.model_copy(update=_callbacks(resources, fields))
    try:
        accepted = resources.callers_ledger.accept(placeholder)
    except RequestIdConflict:
        return  # it is another request's
    if accepted.is_new:
        _end_refused(resources, placeholder, error)


def cancel_unread(resources: Resources, task_id: str) -> None:
    """End a request as `cancelled` whose message no task has read."""
    placeholder = placeholder_request(id_of_task(task_id), {})
    with suppress(RequestIdConflict):  # it has ended
        if resources.callers_ledger.accept(placeholder).is_new:
            resources.callers_ledger.cancel(placeholder.request_id)


def _callbacks(resources: Resources, unread: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an unreadable request that name the receivers of its end, if these can be read."""
    fields = {name: unread[name] for name in ("on_end", "linked") if name in unread}
    try:
        read = Request(questions=("",), **fields)
        check_callbacks(read, resources.settings)
    except (ValidationError, WrongDeclaration):
        return {}
    return {name: getattr(read, name) for name in fields}


def _end_refused(resources: Resources, request: Request, error: Exception) -> None:
    why = Degradation(Stage.PLAN, Reason.NOT_CONFIGURED, str(error)[:500])
    end_failed(resources, request, why, by="planner")


def register(app: Celery) -> None:
    app.task(retrieve_task, name=TASK_RETRIEVE, bind=True, ignore_result=True, send_events=False)


def retrieve_task(
    task: Any,
    request: Any = None,
    *surplus: object,
    request_id: str | None = None,
    v: int = WIRE_VERSION,
    **unknown: object,
) -> str | None:
    """Plan an accepted request by its id; a call with a whole `request` accepts it first.

    A request that names no id has the task's, so that a message delivered twice is one request.
    """
    resources: Resources = task.app.resources
    fanout: Fanout = task.app.fanout
    if request is None and isinstance(request_id, str) and request_id == id_of_task(request_id):
        return request_id if plan_accepted(resources, fanout, request_id, v=v) else None
    own_id = id_of_task(task.request.id)
    fields = _as_fields(request)
    fields.setdefault("request_id", request_id or own_id)
    accepted_id = None
    try:
        _refuse_arguments(surplus, unknown if v == WIRE_VERSION else ())
        fields.setdefault("traceparent", valid_traceparent(task.request.get("traceparent")))
        links = linked_tasks(task.request, resources.settings.on_end_queues)
        if links.linked:
            fields["linked"] = links.linked
        if links.linked or fields.get("on_end"):
            fields.setdefault("headers", links.headers)
        for why in links.refused:
            log.error("link refused", task_id=own_id, error=why)
        check_fields(fields)
        read = read_request(fields)
        refused = tuple(f"{Warned.REQUEST}: {why}" for why in links.refused)
        accepted_id = submit(resources, fanout, read.request, warnings=(*read.warnings, *refused))
    except (InvalidRequest, RequestIdConflict) as error:
        log.error("invalid request", task_id=display_name(task.request.id), error=str(error))
        if task.request.chord:
            task.app.backend.fail_chord(task.request.chord, str(error))
        if isinstance(error, InvalidRequest):
            answer_unread(resources, own_id, error, fields)
    if is_followed(task.request):
        raise Ignore  # otherwise Celery would send the linked tasks now
    return accepted_id


def _as_fields(request: Any) -> dict[str, Any]:
    """The fields of a request, which may be given as one question or a list of questions."""
    if isinstance(request, Mapping):
        return dict(request)
    return {} if request is None else {"questions": [request] if isinstance(request, str) else request}


def _refuse_arguments(surplus: Sequence[object], unknown: Iterable[str]) -> None:
    if surplus:
        raise InvalidRequest(f"{TASK_RETRIEVE} takes one argument, the request; not {len(surplus) + 1}")
    for name in unknown:
        raise InvalidRequest(
            f"{display_name(name)}: not an argument of {TASK_RETRIEVE}; put it into the request"
        )
