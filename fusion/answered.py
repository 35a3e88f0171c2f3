"""What the branches of a request answered, and what is missing because of those that did not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chorale_client.request import Request
from chorale_client.words import EnvelopeStatus, Reason, Stage

from models.envelope import Degradation, Envelope
from models.hits import Ranking
from models.plan import Plan


@dataclass(frozen=True, slots=True)
class BranchAnswers:
    """What the branches of one request left, when the waiting for them ended."""

    request: Request
    plan: Plan
    envelopes: Mapping[str, Envelope] = field(default_factory=dict)
    """Key: branch name."""
    absent: Mapping[str, Degradation] = field(default_factory=dict)
    """Why a branch left no envelope; `not_started` for a branch that is in neither mapping."""


def branch_stage(branch: str) -> str:
    return f"{Stage.SEARCH}.{branch}"


def ranking_of(envelope: Envelope | None, position: int) -> Ranking | None:
    """The branch's ranking for the question at `position` of `plan.asked`; None if the branch did not answer it."""
    if envelope is None or not envelope.answered:
        return None
    if position < len(envelope.rankings):
        return envelope.rankings[position]
    return Ranking() if envelope.status == EnvelopeStatus.EMPTY else None


def missing_branches(found: BranchAnswers) -> tuple[Degradation, ...]:
    """Why branches did not answer all questions, or not as they should, in the plan's order.

    Where nothing was searched, nothing is missing.
    """
    plan = found.plan
    if not plan.asked:
        return ()
    missing = []
    for branch in plan.branches:
        where, envelope = branch_stage(branch.name), found.envelopes.get(branch.name)
        if envelope is None:
            missing.append(found.absent.get(branch.name) or Degradation(where, Reason.NOT_STARTED))
        elif not envelope.answered:
            missing.append(Degradation(where, envelope.reason or Reason.ERROR, envelope.detail))
        elif any(ranking_of(envelope, position) is None for position in range(len(plan.asked))):
            detail = f"answered {len(envelope.rankings)} of {len(plan.asked)} questions"
            missing.append(Degradation(where, Reason.INVALID_ANSWER, detail))
        if envelope is not None:
            missing.extend(envelope.degraded)
    return tuple(missing)
