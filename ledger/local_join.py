"""A process that has all parts of a request fuses the request without a report and a join; its end brings the results.

A process does so only while no other process can begin to work on the request.  If the process dies, the ledger sends the parts
again, as if the process had died while it searched.
"""

from __future__ import annotations

from collections.abc import Sequence

from ledger.protocol import Snapshot, Started, UnreportedResult
from models.branch_result import BranchResult, sent
from models.plan import Plan, is_costly, read_planned


def join_locally(
    request_id: str, parts: Sequence[tuple[BranchResult, Started]], searched_ms: float
) -> Snapshot | None:
    """The request as the join would return it, `searched_ms` after its parts were started; None if it has to be reported."""
    started = parts[0][1]
    if is_costly(started.plan) or not all(_is_first(result, part) for result, part in parts):
        return None
    _, plan = read_planned(started.request, started.plan)
    remaining_ms = min(part.remaining_ms for _, part in parts) - searched_ms
    age_ms = started.since_accepted_ms + searched_ms
    if plan is None or not _is_whole(plan, parts) or not _is_alone(plan, age_ms, searched_ms, remaining_ms):
        return None
    results = [sent(result) for result, _ in parts]
    if not all(result.answered for result, _ in results):
        return None
    return Snapshot(
        request_id=request_id,
        state="planned",
        request=started.request,
        plan=started.plan,
        branch_results={},
        started={},
        sent_again={},
        decided_by=None,
        accepted_at_ms=started.accepted_at_ms,
        deadline_ms=started.deadline_ms,
        coalescing_key=started.coalescing_key,
        now_ms=started.accepted_at_ms + round(age_ms),
        reported={result.branch: result for result, _ in results},
        unreported=[UnreportedResult(result.branch, str(result.status), wire) for result, wire in results],
    )


def _is_first(result: BranchResult, part: Started) -> bool:
    """Whether this is the first answer to the only message of a part."""
    return part.is_signed and result.answered and result.attempt == 1 and not part.is_sent_again


def _is_whole(plan: Plan, parts: Sequence[tuple[BranchResult, Started]]) -> bool:
    return sorted(result.branch for result, _ in parts) == sorted(branch.name for branch in plan.branches)


def _is_alone(plan: Plan, age_ms: float, searched_ms: float, remaining_ms: float) -> bool:
    """Whether no second message of a part is due, and the fusion will end before another process may join the request."""
    is_due = any(
        (branch.hedge_after_ms is not None and branch.hedge_after_ms <= age_ms)
        or 0 < branch.lease_ms <= searched_ms
        for branch in plan.branches
    )
    return remaining_ms >= plan.fusion_reserve_ms and not is_due
