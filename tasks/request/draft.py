"""The answer to one request while it is made: what every step after the join reads, and what it adds to."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from structlog import get_logger

from fusion.answer import Pages
from fusion.branch_results import BranchAnswers
from fusion.rankings import Scores
from models.branch_result import Degradation
from models.documents import PassageText
from models.errors import OutOfTime, StageFailure
from search.deadline import Deadline
from tasks.wiring.resources import Resources

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


@dataclass(slots=True)
class Draft:
    resources: Resources
    answers: BranchAnswers
    left_ms: float
    """Until the request's deadline, at `begun_s`."""
    since_accepted_ms: int = 0
    begun_s: float = field(default_factory=time.monotonic)
    """By the monotonic clock."""
    policy: FinishPolicy = FUSION_WORKER
    pages: Pages = field(default_factory=Pages)
    texts: dict[str, PassageText] = field(default_factory=dict)
    """Every text that is known, by passage id; `pages` has those that are shown."""
    scores: Sequence[Scores] | None = None
    """The scores that complete the rankings, for each question asked."""
    ended_late: Degradation | None = None
    """What the answer lacks because the sweeper makes it."""

    @property
    def spent_s(self) -> float:
        return time.monotonic() - self.begun_s

    def deadline(self, share: float = 1.0) -> Deadline:
        """The end of a call of stores that may take this share of the time that is left now."""
        left_s = (self.left_ms - self.answers.plan.finish_reserve_ms / 2) / 1000 - self.spent_s
        return Deadline(min(left_s, self.policy.texts_limit_s) * share, "the store")


def failure_of(error: Exception, event: str, **context: Any) -> StageFailure:
    """An error of a store or model as an answer names it.  One of another package may raise anything, which is logged as `event`."""
    if isinstance(error, StageFailure):
        return error
    if isinstance(error, TimeoutError):
        return OutOfTime(str(error))
    log.exception(event, **context)
    return StageFailure(f"{type(error).__name__}: {error}")
