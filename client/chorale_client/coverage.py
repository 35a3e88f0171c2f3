"""The coverage of an answer: the branches that answered, what is missing, and why."""

from __future__ import annotations

# typing's own has what pydantic needs only since Python 3.12.
from typing_extensions import TypedDict

from chorale_client.answer import Answer
from chorale_client.wire_names import BranchStatus, Reason, Stage, StageStatus

_BRANCH = f"{Stage.SEARCH}."


class Missing(TypedDict):
    """A part of the answer that is missing."""

    where: str
    """A stage, or `search.<branch>`."""
    reason: str
    """A word of `chorale_client.wire_names.Reason`."""
    detail: str


class Coverage(TypedDict):
    """How much of the pipeline an answer comes from, in plain JSON values."""

    request_id: str
    status: str
    """The request's status: `complete`, `degraded`, `failed`, ..."""
    branches: dict[str, str]
    """For each branch that was planned: `ok`, `empty` (it answered and found nothing), or the reason why it is
    missing.  Empty for an answer from the cache."""
    missing: list[Missing]
    """What is missing from the answer; empty if it is complete."""
    warnings: list[str]
    abstained: list[bool]
    """For each question, whether its confidence is below `abstain`: its hits should not be taken for an answer."""
    cached: bool
    took_ms: float
    """Milliseconds from acceptance to end."""
    retry_after_s: float | None
    """For a refused request: seconds after which it is worth asking again."""


def coverage_of(answer: Answer) -> Coverage:
    """The coverage of an answer, over all its questions."""
    missing = [Missing(where=part.where, reason=part.reason, detail=part.detail) for part in answer.degraded]
    reasons = {part["where"]: part["reason"] for part in missing}
    branches = {
        line.stage.removeprefix(_BRANCH): reasons.get(line.stage)
        or _branch_status(line.status, line.detail, line.n_out)
        for line in answer.stages
        if line.stage.startswith(_BRANCH)
    }
    # A request that ended without its fusion has reasons, and no stages.
    branches |= {
        where.removeprefix(_BRANCH): reason for where, reason in reasons.items() if where.startswith(_BRANCH)
    }
    return Coverage(
        request_id=answer.request_id,
        status=answer.status,
        branches=branches,
        missing=missing,
        warnings=list(answer.warnings),
        abstained=[question.abstained for question in answer.questions],
        cached=answer.cached,
        took_ms=answer.took_ms,
        retry_after_s=answer.retry_after_s,
    )


def _branch_status(status: str, detail: str | None, hits: int | None) -> str:
    if status in (StageStatus.OK, StageStatus.PARTIAL):
        # Plain texts: LangGraph warns of an enum in a checkpoint.
        return str(BranchStatus.EMPTY if hits == 0 else BranchStatus.OK)
    # A branch that was left out on purpose has its reason as the detail of its line.
    return detail if detail in set(Reason) else status
