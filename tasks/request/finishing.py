"""How requests end: joined entries of the ledger are read, their answers are made, and written once.

Fusion workers and the sweeper end requests in the same way; `FinishPolicy` holds what they do differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chorale_client.request import Request
from chorale_client.terminal_answers import failed_body
from chorale_client.wire_names import Reason, Stage, StageStatus, Status
from chorale_client.wire_reader import placeholder_request
from pydantic_core import to_json
from structlog import get_logger

from config.logging import log_stage
from fusion.answer import size_limited
from fusion.branch_results import BranchAnswers, branch_stage
from fusion.conditions import least_relaxed
from ledger.breaker_outcomes import Outcome, outcomes
from ledger.breakers import read_transitions
from ledger.protocol import End, Snapshot
from models.branch_result import BranchResult, Degradation
from models.plan import Plan, is_costly, read_planned
from tasks.request.composing.compose import answer_of, compose
from tasks.request.composing.ending import Ending, FinishPolicy
from tasks.request.planning.answer_cache import keep_answers
from tasks.wiring.resources import Resources

log = get_logger("chorale.end")


HURRIED_MS = 150
"""A joined request with less time left is ended before the others, and alone."""


def end_joined(
    resources: Resources, entries: Sequence[Snapshot], *, by: FinishPolicy, joined_s: float
) -> int:
    """Fuse joined entries and end their requests; returns how many of these ends counted.

    `joined_s` is the monotonic clock when the join was asked for; the entries' times count from then on.  An error in
    here ends its request as `failed`.
    """
    hurried, others, costly = list[Snapshot](), list[Snapshot](), list[Snapshot]()
    for entry in entries:
        (costly if is_costly(entry.plan) else hurried if entry.remaining_ms < HURRIED_MS else others).append(
            entry
        )
    groups = [*([entry] for entry in sorted(hurried, key=lambda entry: entry.remaining_ms)), others]
    groups += [[entry] for entry in costly]
    return sum(_end_together(resources, group, by, joined_s) for group in groups if group)


def _end_together(
    resources: Resources, entries: Sequence[Snapshot], by: FinishPolicy, joined_s: float
) -> int:
    """One terminal write for all."""
    opened = [_opened(resources, entry, by, joined_s) for entry in entries]
    written = [
        _answered(resources, entry, *read)
        for entry, read in zip(entries, opened, strict=True)
        if not isinstance(read, bool)
    ]
    finished = resources.ledger.finish_all([answer.end for answer in written], by=by.name)
    count = opened.count(True)
    finished_answers: list[tuple[BranchAnswers, Mapping[str, Any]]] = []
    for answer, (took_ms, transitions) in zip(written, finished, strict=True):
        if took_ms is None:
            continue
        count += 1
        _log_transitions(resources, answer.outcomes, transitions)
        if answer.fields is not None:
            _log_stages(answer.answers.request, answer.fields)
            finished_answers.append((answer.answers, answer.fields))
    keep_answers(resources, finished_answers)
    return count


def _opened(
    resources: Resources, entry: Snapshot, by: FinishPolicy, joined_s: float
) -> tuple[BranchAnswers, Ending] | bool:
    """A request that was read; or, if it has no plan that can be carried out, whether it was ended here as failed."""
    request: Request | None = None
    try:
        if not entry.is_signed:
            why = Degradation(Stage.PLAN, Reason.FORGED, "no worker of this installation made its plan")
        else:
            request, plan = read_planned(entry.request, entry.plan)
            late = None if by.has_models else _not_fused_in_time(entry)
            if plan is None:
                why = Degradation(Stage.PLAN, Reason.NOT_STARTED, "no worker planned it in time")
            elif late is not None and is_costly(entry.plan):
                # Fusing it would take the sweeper seconds, in which others would end late.
                why = late
            else:
                times = entry.remaining_ms, plan.finish_reserve_ms, entry.since_accepted_ms, joined_s
                return _branch_answers(entry, request, plan), Ending(*times, policy=by, late=late)
    except ValueError as error:
        why = Degradation(Stage.PLAN, Reason.NOT_CONFIGURED, f"of another version: {error}"[:500])
    return end_failed(
        resources, request or placeholder_request(entry.request_id, entry.request), why, by=by.name
    )


def _not_fused_in_time(entry: Snapshot) -> Degradation:
    reason = Reason.NOT_STARTED if entry.state != "fusing" else Reason.TIMEOUT
    return Degradation(Stage.FUSE, reason, "no fusion worker ended it in time; answered by the sweeper")


@dataclass(frozen=True, slots=True)
class _Answered:
    end: End
    answers: BranchAnswers
    outcomes: Mapping[str, Outcome]
    """What the end says about each branch and store, by name."""
    fields: Mapping[str, Any] | None = None
    """Those of the answer; None if the fusion failed."""


def _answered(resources: Resources, entry: Snapshot, answers: BranchAnswers, ending: Ending) -> _Answered:
    request = answers.request
    ended = outcomes(answers.plan, answers.branch_results, answers.absent, timeout_s=request.timeout_s)
    counted = resources.breakers.arguments(request.request_id, ended)
    coalescing_key = None if entry.forged else entry.coalescing_key
    fields: Mapping[str, Any] | None = None
    body: bytes | str
    complete, completed = False, ""
    try:
        pages = compose(resources, answers, ending)
        fields = answer_of(answers, pages, ending)
        fields, body = size_limited(fields, resources.settings.answer_limit_bytes)
        statuses = {question["status"] for question in fields["questions"]}
        complete = statuses <= {Status.COMPLETE, Status.SKIPPED}
        completed = to_json(pages.scores).decode() if pages.scores else ""
    except Exception as error:  # any answer is better than none
        log.exception("fusion failed", request_id=request.request_id)
        detail = f"{type(error).__name__}: {error}"[:500]
        body = failed_body(request, where=Stage.FUSE, reason=Reason.ERROR, detail=detail)
    end = End(
        request.request_id,
        body,
        complete,
        counted,
        coalescing_key,
        completed,
        unreported=entry.unreported,
        accepted_at_ms=entry.accepted_at_ms,
    )
    return _Answered(end, answers, {outcome.name: outcome for outcome in ended}, fields)


def end_failed(resources: Resources, request: Request, why: Degradation, *, by: str) -> bool:
    """End a request as `failed`; returns whether this was the end that counted."""
    body = failed_body(request, where=why.where, reason=Reason(why.reason), detail=why.detail)
    [(took_ms, _)] = resources.ledger.finish_all([End(request.request_id, body, is_complete=False)], by=by)
    if took_ms is not None:
        log.warning(
            "failed", request_id=request.request_id, where=why.where, reason=why.reason, detail=why.detail
        )
    return took_ms is not None


def _branch_answers(entry: Snapshot, request: Request, plan: Plan) -> BranchAnswers:
    branch_results = {
        name: BranchResult.failed(name, Reason.FORGED, "no worker of this installation made this answer")
        if name in entry.forged
        else BranchResult.from_wire(name, raw)
        for name, raw in entry.branch_results.items()
    }
    branch_results |= entry.reported
    names = [branch.name for branch in plan.branches if branch.name not in branch_results]
    absent = {name: _absence(entry, name) for name in names}
    moments_ms = {name: _moments_ms(entry, name) for name in {*absent, *entry.sent_again}}
    return BranchAnswers(request, plan, least_relaxed(branch_results), absent, moments_ms)


def _moments_ms(entry: Snapshot, branch: str) -> dict[str, int]:
    """Milliseconds from acceptance until a worker first began the branch, and until a second message was sent."""
    moments = {"first_start_ms": entry.started.get(branch), "sent_again_ms": entry.sent_again.get(branch)}
    return {name: at_ms - entry.accepted_at_ms for name, at_ms in moments.items() if at_ms is not None}


def _absence(entry: Snapshot, branch: str) -> Degradation:
    where = branch_stage(branch)
    if entry.decided_by is not None:
        return Degradation(
            where, Reason.CANCELLED, f"{entry.decided_by!r} had failed, which decides the request"
        )
    if branch in entry.started:
        return Degradation(where, Reason.TIMEOUT, "began and had not answered when the waiting ended")
    return Degradation(where, Reason.NOT_STARTED, "no worker took it before the waiting ended")


def _log_transitions(resources: Resources, outcome_of: Mapping[str, Outcome], reply: Any) -> None:
    for transition in read_transitions(reply):
        if transition.is_open:
            log.warning(
                "breaker opened",
                breaker=transition.name,
                reason=outcome_of[transition.name].reason,
                open_s=resources.settings.breaker_open_s,
            )
        else:
            log.warning("breaker closed", breaker=transition.name)


def _log_stages(request: Request, fields: Mapping[str, Any]) -> None:
    reasons = {degradation["where"]: degradation["reason"] for degradation in fields["degraded"]}
    for stage in fields["stages"]:
        detail = None if stage["status"] == StageStatus.OK else stage.get("detail")
        log_stage(
            stage["stage"],
            request_id=request.request_id,
            correlation_id=request.correlation_id,
            ms=stage["ms"],
            n_in=stage.get("n_in"),
            n_out=stage.get("n_out"),
            status=stage["status"],
            reason=reasons.get(stage["stage"], detail),
        )
