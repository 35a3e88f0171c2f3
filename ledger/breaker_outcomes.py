"""The outcome of each branch and store of an ended request: the outcomes that breakers count.

Pure functions of a plan, its branch results and its absent branches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from chorale_client.wire_names import Reason, Stage, StageStatus

if TYPE_CHECKING:
    from models.branch_result import BranchResult, Degradation
    from models.plan import BranchPlan, Plan

Verdict = Literal["answered", "failed", "says_nothing"]

SHORTEST_FAIR_MS = 500
"""A shorter time limit says more about itself than about the branch that missed it."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What a reason counts against."""

    branch: bool = False
    store: bool = False
    by_the_clock: bool = False
    """The reason counts only if the branch had a fair time."""
    why: str = ""


COUNTS: Mapping[Reason, Counts] = {
    Reason.UNAVAILABLE: Counts(branch=True, store=True, why="the server did not answer"),
    Reason.UNAUTHORISED: Counts(branch=True, store=True, why="it will not answer until somebody acts"),
    Reason.TIMEOUT: Counts(branch=True, by_the_clock=True, why="too slow, or hung, or killed"),
    Reason.NOT_STARTED: Counts(branch=True, by_the_clock=True, why="nobody serves the queue, or too few"),
    Reason.LATE: Counts(branch=True, by_the_clock=True, why="too few serve the queue"),
    Reason.ERROR: Counts(branch=True, why="an unexpected one may come again"),
    Reason.INVALID_ANSWER: Counts(branch=True, why="nonsense from a store or model may come again"),
    Reason.MODEL_MISSING: Counts(branch=True, why="every request would wait for the model"),
    Reason.BAD_INDEX: Counts(why="of this request's namespace alone, and answered at once"),
    Reason.NOT_CONFIGURED: Counts(why="answered at once, and waiting mends nothing"),
    Reason.CANCELLED: Counts(why="the caller's decision"),
    Reason.BUDGET: Counts(why="the request's own limit"),
    Reason.ADAPTIVE: Counts(why="the reranker's own limit"),
    Reason.BREAKER_OPEN: Counts(why="not asked"),
    Reason.OVERLOAD: Counts(why="not asked"),
    Reason.FORGED: Counts(why="the branch did not say it"),
}
"""An unknown reason counts as `error`.  The reasons of skipped stages never reach a branch."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one branch (`vector`) or one store (`store:local`) in one request."""

    name: str
    verdict: Verdict
    reason: str = ""
    answered_after_ms: int | None = None
    """Milliseconds from acceptance to the branch's answer."""


def store_name(store: str) -> str:
    """The breaker name of a store; a branch's name has no colon."""
    return f"store:{store}"


ENCODER = "encoder:"


def encoder_name(encoder: str) -> str:
    """The breaker name of an encoder behind an address."""
    return f"{ENCODER}{encoder}"


def outcomes(
    plan: Plan,
    branch_results: Mapping[str, BranchResult],
    absent: Mapping[str, Degradation],
    *,
    timeout_s: float,
) -> tuple[Outcome, ...]:
    """One outcome for each branch of the plan, then one for each store.  `absent`: why a branch left no result."""
    branches: list[Outcome] = []
    by_store: dict[str, list[Outcome]] = {}
    for branch in plan.branches:
        branch_result = branch_results.get(branch.name)
        if branch_result is not None and (
            ended_before_its_store(branch_result) or failed_at_an_endpoint(branch_result)
        ):
            outcome = store = Outcome(branch.name, "says_nothing", branch_result.reason or "")
        elif branch_result is not None and branch_result.answered:
            after_ms = None if branch.is_costly else _answered_after_ms(branch_result)
            outcome = store = Outcome(branch.name, "answered", answered_after_ms=after_ms)
        else:
            missing = branch_result or absent.get(branch.name)
            reason = (missing and missing.reason) or Reason.NOT_STARTED
            counts = Counts() if branch.is_costly else counts_of(reason)
            fails = counts.branch and (not counts.by_the_clock or _was_fair(branch, timeout_s))
            outcome = Outcome(branch.name, "failed" if fails else "says_nothing", str(reason))
            counts_for_store = counts.store and not (branch_result and failed_in_its_encoder(branch_result))
            store = Outcome(branch.name, "failed" if counts_for_store else "says_nothing", str(reason))
        branches.append(outcome)
        by_store.setdefault(branch.store, []).append(store)
    return (*branches, *(_store_outcome(name, store_outcomes) for name, store_outcomes in by_store.items()))


def ended_before_its_store(branch_result: BranchResult) -> bool:
    """Whether a language model failed or was skipped before the search.  Language models have their own breakers."""
    return any(
        note.stage in (Stage.HYPOTHESIS, Stage.EXPAND)
        and note.status in (StageStatus.FAILED, StageStatus.SKIPPED)
        for note in branch_result.stages
    )


def failed_in_its_encoder(branch_result: BranchResult) -> bool:
    """Whether the branch failed before its search because the encoder, which may be a server, gave no vector."""
    return any(
        note.stage == Stage.EMBED and note.status == StageStatus.FAILED for note in branch_result.stages
    )


def failed_at_an_endpoint(branch_result: BranchResult) -> bool:
    """Whether that encoder is behind an address.  Such encoders have their own breakers, for all branches."""
    return any(
        note.stage == Stage.EMBED
        and note.status == StageStatus.FAILED
        and (note.detail or "").startswith(ENCODER)
        for note in branch_result.stages
    )


def counts_of(reason: str) -> Counts:
    try:
        return COUNTS.get(Reason(reason), COUNTS[Reason.ERROR])
    except ValueError:
        return COUNTS[Reason.ERROR]


def _store_outcome(name: str, store_outcomes: Iterable[Outcome]) -> Outcome:
    """One outcome for the store: an answer of any of its branches outweighs the others."""
    by_verdict = {outcome.verdict: outcome for outcome in store_outcomes}
    first = next(by_verdict[v] for v in ("answered", "failed", "says_nothing") if v in by_verdict)
    return Outcome(store_name(name), first.verdict, first.reason)


def _was_fair(branch: BranchPlan, timeout_s: float) -> bool:
    # A limit below the request's own was declared for this branch, and counts as enough.
    timeout_ms = timeout_s * 1000
    return branch.limit_ms < round(timeout_ms) or timeout_ms >= SHORTEST_FAIR_MS


def _answered_after_ms(branch_result: BranchResult) -> int | None:
    where = f"{Stage.SEARCH}.{branch_result.branch}"
    for note in branch_result.stages:
        if note.stage == where and note.start_ms is not None:
            return round(note.start_ms + note.ms)
    return None
