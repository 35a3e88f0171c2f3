"""When the message of a branch is sent a second time: after the branch's own 95th percentile."""

from __future__ import annotations

from redis.exceptions import RedisError

from assembly.resources import Resources
from models.plan import Plan


def with_hedges(resources: Resources, plan: Plan) -> Plan:
    """The plan with `hedge_after_ms` of each branch; half the branch's limit if too few answers are known."""
    try:
        p95_ms = resources.breakers.p95_ms([branch.name for branch in plan.branches])
    except RedisError:
        p95_ms = {}
    branches = tuple(
        branch.model_copy(
            update={"hedge_after_ms": min(p95_ms.get(branch.name) or branch.limit_ms, branch.limit_ms // 2)}
        )
        for branch in plan.branches
    )
    return plan.model_copy(update={"branches": branches})
