"""What an ended request says of each branch that it asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chorale_client.words import EnvelopeStatus, Reason, Stage

from audit.outbox import Ended

_ANSWERED = (EnvelopeStatus.OK, EnvelopeStatus.EMPTY)


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
    stages = {one["stage"]: one for one in ended.answer.get("stages") or ()}
    missing = {one["where"]: one["reason"] for one in ended.answer.get("degraded") or ()}
    for branch in plan.get("branches", ()) if plan.get("asked") else ():
        name = branch["name"]
        where = f"{Stage.SEARCH}.{name}"
        envelope = ended.envelopes.get(name)
        # A long outbox leaves the stages of envelopes out, and a cancelled request those of the answer.
        line = stages.get(where) or _line_of(envelope, where)
        yield EndedBranch(
            name=name,
            queue=branch.get("queue", ""),
            outcome=_outcome(envelope, missing.get(where)),
            start_ms=line.get("start_ms"),
            ms=line.get("ms") if "start_ms" in line else None,
            hits=sum(len(ranking["hits"]) for ranking in (envelope or {}).get("rankings") or ()),
            attempt=(envelope or {}).get("attempt", 1),
        )


def _line_of(envelope: dict[str, Any] | None, where: str) -> dict[str, Any]:
    return next((one for one in (envelope or {}).get("stages") or () if one["stage"] == where), {})


def _outcome(envelope: dict[str, Any] | None, missing: str | None) -> str:
    if envelope is None:
        return missing or Reason.NOT_STARTED
    if envelope["status"] in _ANSWERED:
        return str(envelope["status"])
    return str(envelope.get("reason") or missing or Reason.ERROR)
