"""A request in flight as plain values, and what a sweeper finds due at one moment: the protocol without its Redis.

`ledger.memory` changes these values step by step; docs/ledger.md explains the moments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ledger.protocol import Action, Callback, Entry

SWEEPER_LEASE_MS = 150
"""How long a sweeper that died keeps the others waiting, and how long it keeps what it took."""
RETRIEVES = 3
"""How often `chorale.retrieve` is sent for a request that nobody plans."""
RESENDS = 2
"""How often a part that nobody took is sent again."""
FUSES = 3
"""How often `chorale.fuse` is published."""
RESEND_EVERY_MS = 500
FUSE_EVERY_MS = 250
FOLLOWER_EVERY_MS = 50


@dataclass(slots=True)
class PartInFlight:
    queue: str
    limit_at_ms: int
    resend_at_ms: int
    resent: int = 0
    started_at_ms: int | None = None
    status: str | None = None
    envelope: bytes = b""

    @property
    def is_untouched(self) -> bool:
        return self.status is None and self.started_at_ms is None


@dataclass(slots=True)
class RequestInFlight:
    """Times are milliseconds by the ledger's clock."""

    request: bytes
    fingerprint: str
    head: str
    accepted_at_ms: int
    deadline_ms: int
    answer_ttl_ms: int
    state: str = "accepted"
    plan: bytes | None = None
    parts: dict[str, PartInFlight] = field(default_factory=dict)
    callback: Callback | None = None
    join_at_ms: int = 0
    fusing_until_ms: int = 0
    finish_reserve_ms: int | None = None
    fusion_reserve_ms: int | None = None
    retrieves_sent: int = 0
    fuses_sent: int = 0
    flight: str | None = None
    """The flight that this request leads."""
    leader: str | None = None
    followers: list[str] = field(default_factory=list)

    @property
    def end_at_ms(self) -> int:
        """When the sweeper ends it; before the plan knows better, the reserve follows from the time limit."""
        if self.finish_reserve_ms is not None:
            return self.deadline_ms - self.finish_reserve_ms
        return self.deadline_ms - min(60, (self.deadline_ms - self.accepted_at_ms) // 5)

    @property
    def left(self) -> int:
        """How many branches have not reported."""
        return sum(part.status is None for part in self.parts.values())

    def snapshot(self, request_id: str, *, state: str, now_ms: int) -> Entry:
        return Entry(
            request_id=request_id,
            state=state,
            request=self.request,
            plan=self.plan,
            envelopes={name: part.envelope for name, part in self.parts.items() if part.status is not None},
            started=frozenset(name for name, part in self.parts.items() if part.started_at_ms is not None),
            accepted_at_ms=self.accepted_at_ms,
            deadline_ms=self.deadline_ms,
            now_ms=now_ms,
        )


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
        if one.retrieves_sent > RETRIEVES:
            return Due((), one.end_at_ms)
        again_at = now_ms + 100 * one.retrieves_sent**2
        return Due((Action("retrieve", request_id),), min(again_at, one.end_at_ms))
    if one.state == "fusing":
        return _due_while_fusing(request_id, one, now_ms, lease_ms)
    if one.left > 0 and now_ms < one.join_at_ms:
        return _due_while_searching(request_id, one, now_ms, is_empty)
    if one.fuses_sent < FUSES:
        return _fuse(request_id, one, now_ms)
    return Due((), one.end_at_ms)


def _due_while_searching(
    request_id: str, one: RequestInFlight, now_ms: int, is_empty: Callable[[str], bool]
) -> Due:
    actions, moment = [], one.join_at_ms
    for branch, part in one.parts.items():
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
