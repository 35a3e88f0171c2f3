"""Which branches answered a question, and what is missing because of the others."""

from __future__ import annotations

from collections.abc import Mapping

from chorale_client.words import EnvelopeStatus, Reason, Stage

from models.envelope import Degradation, Envelope
from models.hits import Ranking
from models.plan import Plan


def branch_stage(branch: str) -> str:
    return f"{Stage.SEARCH}.{branch}"


def ranking_of(envelope: Envelope | None, position: int) -> Ranking | None:
    """The branch's ranking for the question at `position` of `plan.asked`; None if it did not answer it."""
    if envelope is None or not envelope.answered:
        return None
    if position < len(envelope.rankings):
        return envelope.rankings[position]
    return Ranking() if envelope.status == EnvelopeStatus.EMPTY else None


def missing_branches(
    plan: Plan, envelopes: Mapping[str, Envelope], absent: Mapping[str, Degradation] | None = None
) -> tuple[Degradation, ...]:
    """What each branch of the plan says of itself that did not answer all questions, or not as it should, in the
    plan's order.

    `absent` gives the reason for a branch without an envelope; `not_started` where it does not.  Where nothing
    was searched, nothing is missing.
    """
    if not plan.asked:
        return ()
    missing = []
    for branch in plan.branches:
        where, envelope = branch_stage(branch.name), envelopes.get(branch.name)
        if envelope is None:
            known = (absent or {}).get(branch.name)
            missing.append(known or Degradation(where, Reason.NOT_STARTED))
        elif not envelope.answered:
            missing.append(Degradation(where, envelope.reason or Reason.ERROR, envelope.detail))
        elif any(ranking_of(envelope, position) is None for position in range(len(plan.asked))):
            detail = f"answered {len(envelope.rankings)} of {len(plan.asked)} questions"
            missing.append(Degradation(where, Reason.INVALID_ANSWER, detail))
        if envelope is not None:
            missing.extend(envelope.degraded)
    return tuple(missing)
