"""Who ends a request, and the time that is left for it."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

from chorale_client.wire_names import Stage, StageStatus
from structlog import get_logger

from models.branch_result import Degradation, StageNote
from models.errors import OutOfTime, StageFailure
from search.deadline import Deadline

log = get_logger("chorale.texts")


@dataclass(frozen=True, slots=True)
class FinishPolicy:
    """Who ends a request, and what they can do for its answer."""

    name: str
    """The name that the ledger and the audit trail record."""
    texts_limit_s: float
    """Longest wait for texts."""
    has_models: bool


FUSION_WORKER = FinishPolicy("fusion", math.inf, has_models=True)
# The sweeper ends what is nearly late: no text is worth an answer after the deadline.
SWEEPER = FinishPolicy("sweeper", 0.03, has_models=False)


@dataclass(frozen=True, slots=True)
class Ending:
    remaining_ms: float
    """Until the request's deadline, at `begun_s`."""
    finish_reserve_ms: float
    """Of the plan."""
    since_accepted_ms: int = 0
    begun_s: float = field(default_factory=time.monotonic)
    """By the monotonic clock."""
    policy: FinishPolicy = FUSION_WORKER
    late: Degradation | None = None
    """What the answer lacks because the sweeper makes it."""

    @property
    def spent_s(self) -> float:
        return time.monotonic() - self.begun_s

    def deadline(self, share: float = 1.0) -> Deadline:
        """The end of a call of stores that may take this share of the time that is left now."""
        remaining_s = (self.remaining_ms - self.finish_reserve_ms / 2) / 1000 - self.spent_s
        return Deadline(min(remaining_s, self.policy.texts_limit_s) * share, "the store")


def failure_of(error: Exception, event: str, **context: Any) -> StageFailure:
    """An error of a store or model as an answer names it.  One of another package may raise anything, which is logged as `event`."""
    if isinstance(error, StageFailure):
        return error
    if isinstance(error, TimeoutError):
        return OutOfTime(str(error))
    log.exception(event, **context)
    return StageFailure(f"{type(error).__name__}: {error}")


def stage_note(
    stage: Stage,
    begun_s: float,
    n_in: int,
    n_out: int,
    why: Degradation | None = None,
    *,
    has_part: bool = False,
) -> StageNote:
    """What a stage has done since `begun_s`; with a reason `why` it failed, or `has_part` of its result."""
    failed = StageStatus.PARTIAL if has_part else StageStatus.FAILED
    ms, status = (time.monotonic() - begun_s) * 1000, StageStatus.OK if why is None else failed
    return StageNote(stage, status, ms, n_in, n_out, detail=str(why.reason) if why else None)
