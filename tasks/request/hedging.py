"""When the message of a branch is sent a second time; both moments follow the branch's own 95th percentile.

A hedge is for a worker that is slow: attempt 2 runs beside attempt 1.  A lease is for a worker that died with parts that it
had started: the same attempt is sent again.
"""

from __future__ import annotations

from redis.exceptions import RedisError

from models.plan import BranchPlan, Plan
from wiring.resources import Resources

SHORTEST_LEASE_MS = 400
"""A shorter lease would send parts again that wait for a core."""
LEASE_FACTOR = 2


def with_second_messages(resources: Resources, plan: Plan, *, hedge: bool) -> Plan:
    """The plan with `lease_ms` for each branch, or with `hedge_after_ms` if `hedge` is set.  Both are half the branch's limit
    if too few answers are known."""
    try:
        p95_ms = resources.breakers.p95_ms([branch.name for branch in plan.branches])
    except RedisError:
        p95_ms = {}

    def timed(branch: BranchPlan) -> BranchPlan:
        if branch.is_costly:
            return branch  # another copy would cost as much, or end another worker
        known_ms, half_ms = p95_ms.get(branch.name), branch.limit_ms // 2
        # With a hedge a second attempt is out before a lease would end.
        lease_ms = 0 if hedge else max(SHORTEST_LEASE_MS, LEASE_FACTOR * known_ms if known_ms else half_ms)
        after_ms = min(known_ms or half_ms, half_ms) if hedge else None
        return branch.model_copy(update={"lease_ms": lease_ms, "hedge_after_ms": after_ms})

    return plan.model_copy(update={"branches": tuple(map(timed, plan.branches))})
