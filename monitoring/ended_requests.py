"""The figures of each branch of an ended request, and one line of the log for each request."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chorale_client.wire_names import BranchStatus, Reason, Stage
from structlog import get_logger

from records.audit.outbox import Ended

_ANSWERED = (BranchStatus.OK, BranchStatus.EMPTY)


@dataclass(frozen=True, slots=True)
class EndedBranch:
    """Times are milliseconds; None if they are not known, as for a branch that no worker started."""

    name: str
    queue: str
    outcome: str
    """`ok`, `empty`, or a Reason."""
    start_ms: float | None
    """Counted from the acceptance of the request."""
    ms: float | None
    hits: int
    attempt: int

    @property
    def has_answered(self) -> bool:
        return self.outcome in _ANSWERED


def ended_branches(ended: Ended) -> Iterator[EndedBranch]:
    """One for each branch of the plan; none if no question was searched."""
    plan = ended.plan or {}
    stages = {stage["stage"]: stage for stage in ended.answer.get("stages") or ()}
    missing = {
        degradation["where"]: degradation["reason"] for degradation in ended.answer.get("degraded") or ()
    }
    for branch in plan.get("branches", ()) if plan.get("searched") else ():
        name = branch["name"]
        where = f"{Stage.SEARCH}.{name}"
        branch_result = ended.branch_results.get(name)
        # A long outbox leaves the stages of branch results out, and a cancelled request those of the answer.
        line = stages.get(where) or _line_of(branch_result, where)
        yield EndedBranch(
            name=name,
            queue=branch.get("queue", ""),
            outcome=_outcome(branch_result, missing.get(where)),
            start_ms=line.get("start_ms"),
            ms=line.get("ms") if "start_ms" in line else None,
            hits=sum(len(ranking["hits"]) for ranking in (branch_result or {}).get("rankings") or ()),
            attempt=(branch_result or {}).get("attempt", 1),
        )


def _line_of(branch_result: dict[str, Any] | None, where: str) -> dict[str, Any]:
    return next((stage for stage in (branch_result or {}).get("stages") or () if stage["stage"] == where), {})


def _outcome(branch_result: dict[str, Any] | None, missing: str | None) -> str:
    if branch_result is None:
        return str(missing or Reason.NOT_STARTED)
    if branch_result["status"] in _ANSWERED:
        return str(branch_result["status"])
    return str(branch_result.get("reason") or missing or Reason.ERROR)


_LOGGER = "chorale.request"
log = get_logger(_LOGGER)


def log_ended(requests: Sequence[Ended]) -> None:
    """Write the lines at INFO.  `config.logging` leaves `questions` out unless the installation wants texts."""
    if not logging.getLogger(_LOGGER).isEnabledFor(logging.INFO):
        return
    for ended in requests:
        request, answer = ended.request, ended.answer
        questions = request.get("questions") or ()
        log.info(
            "request",
            request_id=ended.request_id,
            correlation_id=request.get("correlation_id"),
            namespace=request.get("namespace"),
            status=answer.get("status"),
            by=ended.by,
            took_ms=ended.ended_at_ms - ended.accepted_at_ms,
            degraded=[f"{missing['where']} {missing['reason']}" for missing in answer.get("degraded") or ()],
            cached=bool(answer.get("cached")),
            asked=len(questions),
            hits=sum(len(question.get("hits") or ()) for question in answer.get("questions") or ()),
            branches={
                branch.name: {"outcome": branch.outcome, "ms": branch.ms} for branch in ended_branches(ended)
            },
            questions=[question.get("text") for question in questions],
        )
