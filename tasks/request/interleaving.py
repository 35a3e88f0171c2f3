"""Which requests are interleaved: a share of those that ask for the configuration A also carries how B fuses.  Pure."""

from __future__ import annotations

from hashlib import sha256

from chorale_client.request import Request

from config.declarations import Interleaving, LivePair
from fusion.page import is_chosen_among_all
from models.plan import FusionPlan, Plan


def is_drawn(request: Request, plan: Plan, declared: Interleaving) -> bool:
    """Whether the request shares its page with B."""
    return (
        plan.configuration == declared.a
        and len(plan.asked) == 1
        and is_plain(request)
        and place(request.request_id, declared) < declared.share
    )


def is_plain(request: Request) -> bool:
    """Whether users' requests like this one are compared.

    A request that chooses something of the ranking itself is not, nor one without the cache, which measures or refreshes,
    nor one whose page is not simply the first hits of one question.
    """
    return (
        len(request.questions) == 1
        and request.cache == "use"
        and request.offset == 0
        and request.fuse_by == "document"
        and not (request.weights or request.fusion or request.branches or request.thresholds)
        and not is_chosen_among_all(request)
    )


def place(request_id: str, declared: LivePair) -> float:
    """From 0 to 1 and always the same; another one for two other configurations, and independent of the draft."""
    digest = sha256(f"{declared.a} {declared.b} {request_id}".encode()).digest()
    return int.from_bytes(digest[:6]) / 2**48


def with_rival(plan: Plan, rival: Plan) -> Plan:
    """The plan of A with the fusion of B, whose plan `rival` is.  Branches tell what they searched with if B completes scores."""
    tells = {branch.name for branch in rival.branches if branch.tells_asked}
    branches = tuple(
        branch.model_copy(update={"tells_asked": branch.tells_asked or branch.name in tells})
        for branch in plan.branches
    )
    fusion = FusionPlan(**{name: getattr(rival, name) for name in FusionPlan.model_fields})
    return plan.model_copy(update={"rival": fusion, "branches": branches, "cacheable": False})
