"""Which branches a plan leaves out, because their breaker is open or their queue is overloaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from chorale_client.request import Request
from chorale_client.wire_names import Reason
from redis.exceptions import RedisError
from structlog import get_logger

from config.declarations import BranchDeclaration
from fusion.answer import meets_policy
from fusion.branch_results import branch_stage
from ledger.breaker_outcomes import Outcome, store_name
from ledger.breakers import Breakers, LoadSnapshot
from models.branch_result import Degradation
from models.plan import BranchPlan
from tasks.wiring.resources import Resources

log = get_logger("chorale.plan")


@dataclass(frozen=True, slots=True)
class Selection:
    missing: Mapping[str, Degradation] = field(default_factory=dict)
    """Why a branch is left out, by branch name."""
    probes: tuple[str, ...] = ()
    """The half-open breakers that this request claimed."""


def select_branches(resources: Resources, request: Request, branches: Sequence[BranchPlan]) -> Selection:
    """The branches that this request does not ask.

    Only the one request that claims a half-open branch asks it.  If the breakers of all branches are open, one request
    at a time may try before their time is over, since there would be no answer otherwise.
    """
    breakers = resources.breakers
    try:
        snapshot = breakers.read(name for branch in branches for name in breakers_of(branch))
        if snapshot.is_well:
            return Selection()
        shut = _shut(breakers, request, branches, snapshot)
        if len(shut) == len(branches):
            shut = _shut(breakers, request, branches, snapshot, early=True)
    except RedisError as error:
        log.warning("breakers not read", request_id=request.request_id, error=str(error)[:200])
        return Selection()
    probes = tuple(
        name
        for branch in branches
        if branch.name not in shut
        for name in breakers_of(branch)
        if name in snapshot.breakers
    )
    missing = shut | _overloaded(branches, snapshot)
    # The request was accepted: it waits for overloaded branches that it would fail without.
    if len(missing) == len(branches) or fails_policy(request, branches, missing):
        missing = shut
    return Selection(missing, probes)


def breakers_of(branch: BranchPlan | BranchDeclaration) -> tuple[str, str]:
    return branch.name, store_name(branch.store)


def fails_policy(request: Request, branches: Sequence[BranchPlan], missing: Iterable[str]) -> bool:
    """Whether the request is `failed` without the missing ones of its branches, even if all others answer."""
    names = [branch.name for branch in branches]
    return not meets_policy(request, names, set(names).difference(missing))


def skip_reasons(
    branches: Sequence[BranchPlan], missing: Mapping[str, Degradation]
) -> dict[str, Degradation]:
    """The reason of each branch, for a plan that is not carried out."""
    detail = f"not asked, since the request fails without {', '.join(missing)}"
    return {
        branch.name: missing.get(branch.name)
        or Degradation(branch_stage(branch.name), Reason.CANCELLED, detail)
        for branch in branches
    }


def release_probes(resources: Resources, request: Request, probes: Iterable[str]) -> None:
    """Release the claimed breakers of a request that asked no branch after all."""
    try:
        resources.breakers.count(request.request_id, (Outcome(name, "says_nothing") for name in probes))
    except RedisError as error:
        log.warning("probe not given back", request_id=request.request_id, error=str(error)[:200])


def _overloaded(branches: Sequence[BranchPlan], snapshot: LoadSnapshot) -> dict[str, Degradation]:
    overloaded = {}
    for branch in branches:
        load = snapshot.loads.get(branch.queue)
        # A branch whose limit is more than twice the wait is asked all the same.  An open breaker is a reason of its own.
        if load is None or not load.over or any(name in snapshot.breakers for name in breakers_of(branch)):
            continue
        if load.over == "length" or (load.age_ms or 0) >= branch.limit_ms / 2:
            overloaded[branch.name] = Degradation(branch_stage(branch.name), Reason.OVERLOAD, str(load))
    return overloaded


def _shut(
    breakers: Breakers,
    request: Request,
    branches: Sequence[BranchPlan],
    snapshot: LoadSnapshot,
    *,
    early: bool = False,
) -> dict[str, Degradation]:
    """The branches with an open breaker that this request may not try."""
    shut = {}
    for branch in branches:
        open_breakers = [snapshot.breakers[name] for name in breakers_of(branch) if name in snapshot.breakers]
        if not open_breakers:
            continue
        may_try = early or not any(snapshot.now_ms < breaker.open_until_ms for breaker in open_breakers)
        names = breakers_of(branch)
        if may_try and breakers.claim(request.request_id, names, timeout_s=request.timeout_s, early=early):
            log.info("breaker probed", request_id=request.request_id, branch=branch.name)
            continue
        detail = "; ".join(str(breaker) for breaker in open_breakers)
        shut[branch.name] = Degradation(branch_stage(branch.name), Reason.BREAKER_OPEN, detail)
    return shut


SHORTEST_LEASE_MS = 400
"""A shorter lease would send parts again that wait for a core."""
LEASE_FACTOR = 2


def with_second_messages(
    resources: Resources, branches: Sequence[BranchPlan], *, hedge: bool
) -> tuple[BranchPlan, ...]:
    """Each branch with `lease_ms`, or with `hedge_after_ms` if `hedge` is set.  Both are half the branch's limit if too few
    answers are known."""
    try:
        p95_ms = resources.breakers.p95_ms([branch.name for branch in branches])
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

    return tuple(map(timed, branches))
