"""Which requests of users compare two configurations: by a page that both share, or by a shadow.  Pure.

An interleaved request also carries how B fuses.  A shadow asks the question of an ended request once more, under another
configuration.  Its id is derived from the request's, so a second try is no second search.  A caller who chooses such an id and
configuration gets what a shadow gets: an answer by the bulk workers, when they have time, which the metrics of requests leave out.
"""

from __future__ import annotations

from hashlib import sha256

from chorale_client.request import Request
from chorale_client.wire_names import Status
from chorale_client.wire_reader import read_request

from config.declarations import Interleaving, LivePair, Shadow
from fusion.page import is_chosen_among_all
from models.plan import searched_indices
from models.shadow_ids import SUFFIX, shadow_id
from records.audit.outbox import Ended

SHADOW_S = 60.0
"""The longest time that a request may have: bulk workers may be at work on something else first."""
_SEARCHED = ("fusion", "sweeper")
"""Who ends a request that was searched for itself: not the cache, nor another request's answer."""
_SAME = {
    "correlation_id", "namespace", "questions", "top_k", "depth", "filters", "exclude_ids", "boosts", "relax",
}  # fmt: skip
"""The fields that a shadow has from its request.  All other fields concern the caller alone."""


def is_drawn(request: Request, configuration: str, declared: Interleaving) -> bool:
    """Whether the request, under this configuration, shares its page with B."""
    return (
        configuration == declared.a
        and is_plain(request)
        and searched_indices(request) == (0,)
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


def is_shadow(request_id: str, configuration: str | None, declared: Shadow | None) -> bool:
    return declared is not None and configuration == declared.b and request_id.endswith(SUFFIX)


def shadow_of(ended: Ended, declared: Shadow) -> Request | None:
    """The shadow of a request that has ended; None if it gets none.

    A shadow bypasses the cache, so it is no plain request, and has neither a shadow nor a rival.
    """
    plan = ended.plan or {}
    if (
        plan.get("configuration") != declared.a
        or plan.get("searched") != [0]
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
