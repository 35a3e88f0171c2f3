"""The model of the sweeper: what is due for a request at one moment, and when to look again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from chorale_client.protocol_constants import ProtocolConstants
from chorale_client.words import QUEUE_FUSION

from ledger.protocol import Action
from tests.support.ledger.request_in_flight import RequestInFlight


@dataclass(frozen=True, slots=True)
class Due:
    """The actions to do now, and the next moment."""

    actions: tuple[Action, ...]
    moment_ms: int


def due(
    request_id: str,
    one: RequestInFlight,
    now_ms: int,
    constants: ProtocolConstants,
    *,
    is_led: bool,
    is_empty: Callable[[str], bool],
) -> Due:
    """Returns the due actions of a request whose moment has come; counts the messages in `one`.

    `is_led`: the leader of the request is still there; `is_empty`: no message waits in this queue.
    """
    if now_ms >= one.end_at_ms:
        return Due((Action("end", request_id),), now_ms + constants.sweeper_lease_ms)
    if one.state == "following":
        one.leader_late += is_led
        if is_led and one.leader_late <= 4:
            return Due((), min(now_ms + constants.follower_every_ms, one.end_at_ms))
        one.state, one.retrieves_sent = "accepted", 0
    if one.state == "accepted":
        one.retrieves_sent += 1
        if one.retrieves_sent > constants.retrieves + constants.plans:
            return Due((), one.end_at_ms)
        again_at = now_ms + constants.plan_every_ms * one.retrieves_sent
        do: Literal["retrieve", "plan"] = "retrieve" if one.retrieves_sent <= constants.retrieves else "plan"
        return Due((Action(do, request_id),), min(again_at, one.end_at_ms))
    if one.state == "fusing":
        return _due_while_fusing(request_id, one, now_ms, constants)
    if one.left > 0 and now_ms < one.join_at_ms:
        return _due_while_searching(request_id, one, now_ms, constants, is_empty)
    if one.fuses_sent and one.fuses_sent < constants.fuses and not is_empty(QUEUE_FUSION):
        # A callback that was sent may still wait in its queue.
        return Due((), min(now_ms + constants.fuse_every_ms, one.end_at_ms))
    if one.fuses_sent < constants.fuses:
        return _fuse(request_id, one, now_ms, constants)
    return Due((), one.end_at_ms)


def _due_while_searching(
    request_id: str,
    one: RequestInFlight,
    now_ms: int,
    constants: ProtocolConstants,
    is_empty: Callable[[str], bool],
) -> Due:
    actions, moment = [], one.join_at_ms
    for branch, part in one.parts.items():
        if part.hedge_at_ms is not None and part.status is None and not part.is_hedged:
            if part.hedge_at_ms <= now_ms:
                part.is_hedged = True
                actions.append(Action("hedge", request_id, branch))
            else:
                moment = min(moment, part.hedge_at_ms)
        if not part.may_be_lost or part.resent >= constants.resends:
            continue
        next_ms, is_started = part.next_resend_ms, part.started_at_ms is not None
        if next_ms <= now_ms:
            next_ms = now_ms + max(constants.resend_every_ms, part.lease_ms if is_started else 0)
            part.resend_at_ms = next_ms
            # A queue that is not empty may still hold a part that nobody started.
            if is_started or is_empty(part.queue):
                part.resent += 1
                actions.append(Action("part", request_id, branch))
        moment = min(moment, next_ms)
    return Due(tuple(actions), min(moment, one.end_at_ms))


def _due_while_fusing(
    request_id: str, one: RequestInFlight, now_ms: int, constants: ProtocolConstants
) -> Due:
    if now_ms < one.fusing_until_ms:
        return Due((), min(one.fusing_until_ms, one.end_at_ms))
    reserve_ms = one.fusion_reserve_ms
    if reserve_ms is not None and one.fuses_sent < constants.fuses and now_ms + reserve_ms <= one.end_at_ms:
        return _fuse(request_id, one, now_ms, constants)
    return Due((Action("end", request_id),), min(now_ms + constants.sweeper_lease_ms, one.end_at_ms))


def _fuse(request_id: str, one: RequestInFlight, now_ms: int, constants: ProtocolConstants) -> Due:
    one.fuses_sent += 1
    return Due((Action("fuse", request_id),), min(now_ms + constants.fuse_every_ms, one.end_at_ms))
