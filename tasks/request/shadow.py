"""Which requests get a shadow, and how a shadow runs.  Pure.

A shadow asks the question of an ended request once more, under another configuration.  Its id is derived from the request's, so a
second try is no second search.  A caller who chooses such an id and configuration gets what a shadow gets: an answer by the bulk
workers, when they have time, which the metrics of requests leave out.
"""

from __future__ import annotations

from chorale_client.request import Request
from chorale_client.wire_names import QUEUE_BULK, Status
from chorale_client.wire_reader import read_request

from audit.outbox import Ended
from config.declarations import Shadow
from models.plan import Plan
from models.shadow_ids import SUFFIX, shadow_id
from tasks.request.interleaving import is_plain, place

SHADOW_S = 60.0
"""The longest time that a request may have: bulk workers may be at work on something else first."""
_SEARCHED = ("fusion", "sweeper")
"""Who ends a request that was searched for itself: not the cache, nor another request's answer."""
_SAME = {
    "correlation_id", "namespace", "questions", "top_k", "depth", "filters", "exclude_ids", "boosts", "relax",
}  # fmt: skip
"""What a shadow asks as its request did; everything else is its caller's affair."""


def is_shadow(request_id: str, configuration: str | None, declared: Shadow | None) -> bool:
    return declared is not None and configuration == declared.b and request_id.endswith(SUFFIX)


def shadow_of(ended: Ended, declared: Shadow) -> Request | None:
    """The shadow of a request that has ended; None if it gets none.

    A shadow bypasses the cache, so it is no plain request, and has neither a shadow nor a rival.
    """
    plan = ended.plan or {}
    if (
        plan.get("configuration") != declared.a
        or plan.get("asked") != [0]
        or plan.get("rival") is not None
        or ended.by not in _SEARCHED
        or ended.answer["status"] not in (Status.COMPLETE, Status.DEGRADED)
        or place(f"shadow {ended.request_id}", declared) >= declared.share
    ):
        return None
    try:
        request = read_request(ended.request).request
        if not is_plain(request) or request.rerank or request.rerank_depth:
            return None
        return Request(
            **{name: getattr(request, name) for name in _SAME},
            request_id=shadow_id(ended.request_id),
            configuration=declared.b,
            include=("ids",),
            timeout_s=SHADOW_S,
            cache="bypass",
            now=plan["now"],
        )
    except ValueError:  # its id is too long for a derived one, or another version wrote it
        return None


def on_bulk_workers(plan: Plan, request: Request) -> Plan:
    """The plan of a shadow: its branches count for no breaker, and a limit that is declared for callers would only say how long
    it had to wait."""
    changes = {"queue": QUEUE_BULK, "is_costly": True, "limit_ms": round(1000 * request.timeout_s)}
    return plan.model_copy(
        update={"branches": tuple(branch.model_copy(update=changes) for branch in plan.branches)}
    )
