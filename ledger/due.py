"""What a sweeper finds due for a request at one moment, and when to look again; docs/reference/ledger.md has the moments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ledger.in_flight import RequestInFlight
from ledger.protocol import Action

SWEEPER_LEASE_MS = 80
"""How long a sweeper that died keeps the others waiting, and how long it keeps what it took."""
RETRIEVES = 2
"""How often `chorale.retrieve` is sent again for a request that nobody plans."""
PLANS = 2
"""How often the sweeper plans it then; the second time is for a sweeper that died meanwhile."""
PLAN_EVERY_MS = 100
"""For each time that was tried before."""
RESENDS = 2
"""How often a part that nobody took is sent again."""
FUSES = 3
"""How often `chorale.fuse` is published."""
RESEND_EVERY_MS = 500
FUSE_EVERY_MS = 250
FOLLOWER_EVERY_MS = 50


@dataclass(frozen=True, slots=True)
class Due:
    """What to do now, and the next moment."""

    actions: tuple[Action, ...]
    moment_ms: int


def due(
    request_id: str,
    one: RequestInFlight,
    now_ms: int,
    *,
    lease_ms: int,
    is_led: bool,
    is_empty: Callable[[str], bool],
) -> Due:
    """What is due for a request whose moment has come; counts in `one` what it sends.

    `is_led`: the leader that it follows is still there; `is_empty`: no message waits in this queue.
    """
    if now_ms >= one.end_at_ms:
        return Due((Action("end", request_id),), now_ms + lease_ms)
    if one.state == "following":
        if is_led:
            return Due((), min(now_ms + FOLLOWER_EVERY_MS, one.end_at_ms))
        one.state, one.retrieves_sent = "accepted", 0
    if one.state == "accepted":
        one.retrieves_sent += 1
        if one.retrieves_sent > RETRIEVES + PLANS:
            return Due((), one.end_at_ms)
        again_at = now_ms + PLAN_EVERY_MS * one.retrieves_sent
        do: Literal["retrieve", "plan"] = "retrieve" if one.retrieves_sent <= RETRIEVES else "plan"
        return Due((Action(do, request_id),), min(again_at, one.end_at_ms))
    if one.state == "fusing":
        return _due_while_fusing(request_id, one, now_ms, lease_ms)
    if one.left > 0 and now_ms < one.join_at_ms:
        return _due_while_searching(request_id, one, now_ms, is_empty)
    assert one.callback is not None, "what is planned has a callback"
    if one.fuses_sent and one.fuses_sent < FUSES and not is_empty(one.callback.queue):
        # Once sent it may wait among others, as a part does.
        return Due((), min(now_ms + FUSE_EVERY_MS, one.end_at_ms))
    if one.fuses_sent < FUSES:
        return _fuse(request_id, one, now_ms)
    return Due((), one.end_at_ms)


def _due_while_searching(
    request_id: str, one: RequestInFlight, now_ms: int, is_empty: Callable[[str], bool]
) -> Due:
    actions, moment = [], one.join_at_ms
    for branch, part in one.parts.items():
        if part.hedge_at_ms is not None and part.status is None and not part.is_hedged:
            if part.hedge_at_ms <= now_ms:
                part.is_hedged = True
                actions.append(Action("hedge", request_id, branch))
            else:
                moment = min(moment, part.hedge_at_ms)
        if not part.is_untouched or part.resent >= RESENDS:
            continue
        if part.resend_at_ms <= now_ms:
            part.resend_at_ms = now_ms + RESEND_EVERY_MS
            # A queue that is not empty may hold it still.
            if is_empty(part.queue):
                part.resent += 1
                actions.append(Action("part", request_id, branch))
        moment = min(moment, part.resend_at_ms)
    return Due(tuple(actions), min(moment, one.end_at_ms))


def _due_while_fusing(request_id: str, one: RequestInFlight, now_ms: int, lease_ms: int) -> Due:
    if now_ms < one.fusing_until_ms:
        return Due((), min(one.fusing_until_ms, one.end_at_ms))
    reserve_ms = one.fusion_reserve_ms
    if reserve_ms is not None and one.fuses_sent < FUSES and now_ms + reserve_ms <= one.end_at_ms:
        return _fuse(request_id, one, now_ms)
    return Due((Action("end", request_id),), min(now_ms + lease_ms, one.end_at_ms))


def _fuse(request_id: str, one: RequestInFlight, now_ms: int) -> Due:
    assert one.callback is not None, "what is planned has a callback"
    one.fuses_sent += 1
    action = Action("fused" if one.callback.message else "fuse", request_id)
    return Due((action,), min(now_ms + FUSE_EVERY_MS, one.end_at_ms))
