"""What the ledger promises; the protocol of a request, moment by moment, is in docs/reference/ledger.md.

The ledger owns the join: who is expected, who has answered, and the first terminal write, which wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal, Protocol

from chorale_client.ledger import Accepted
from chorale_client.request import Request

from models.envelope import Envelope


@dataclass(frozen=True, slots=True)
class Part:
    """One branch as the ledger keeps it; `message` is the rendered one, or empty where the caller publishes."""

    branch: str
    queue: str
    limit_ms: int
    resend_after_ms: int
    message: bytes = b""
    hedge_after_ms: int | None = None
    """Without an answer then, it is sent once more, as attempt 2; nothing where the limit comes first."""
    is_decisive: bool = False
    """Its failure ends the waiting for the others."""


@dataclass(frozen=True, slots=True)
class Callback:
    queue: str
    message: bytes = b""


@dataclass(frozen=True, slots=True)
class Started:
    """What a branch is told when it begins."""

    left_ms: int
    request: bytes
    plan: bytes
    since_accepted_ms: int
    accepted_at_ms: int
    """Tells the request from a later one of the same id."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A request in flight."""

    request_id: str
    state: str
    """accepted, planned, following or fusing; where it was joined, the state before that."""
    request: bytes
    plan: bytes | None
    envelopes: Mapping[str, bytes]
    """By branch; also of a failure while a second attempt is out."""
    started: frozenset[str]
    """The branches that somebody began."""
    decided_by: str | None
    """The branch whose failure ended the waiting for the others."""
    accepted_at_ms: int
    deadline_ms: int

    def at(self, now_ms: int) -> Snapshot:
        return Snapshot(**{one.name: getattr(self, one.name) for one in fields(self)}, now_ms=now_ms)


@dataclass(frozen=True, slots=True)
class Snapshot(Entry):
    """An entry as it was frozen when it was joined."""

    now_ms: int

    @property
    def left_ms(self) -> int:
        return self.deadline_ms - self.now_ms

    @property
    def since_accepted_ms(self) -> int:
        return self.now_ms - self.accepted_at_ms


@dataclass(frozen=True, slots=True)
class Action:
    """Something that the sweeper found to be due."""

    do: Literal["retrieve", "plan", "part", "hedge", "fuse", "fused", "end"]
    request_id: str
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class Sweep:
    actions: tuple[Action, ...]
    next_in_ms: int | None
    """Until the next moment; None: nothing is in flight."""
    is_acting: bool
    """False: another sweeper holds the lease."""


PlanOutcome = Literal["planned", "follows", "known", "closed"]
ReportOutcome = Literal["counted", "waits", "joined", "due", "replaced", "duplicate", "closed"]
"""`waits`: a failure, kept, that counts when the other attempt fails too."""


class Ledger(Protocol):
    """Every method is one trip; each may come twice without harm."""

    def load(self, request_id: str) -> Entry | None:
        """The entry of a request in flight."""
        ...

    def plan(
        self,
        request_id: str,
        plan: bytes,
        parts: Sequence[Part],
        callback: Callback,
        *,
        finish_reserve_ms: int,
        fusion_reserve_ms: int,
        flight: str | None = None,
    ) -> PlanOutcome:
        """Write the plan and publish what has a message; a second planner is told `known`."""
        ...

    def start(self, request_id: str, branch: str) -> Started | None:
        """None: nobody waits for this branch any more."""
        ...

    def report(
        self, request_id: str, branch: str, envelope: Envelope, *, accepted_at_ms: int | None = None
    ) -> ReportOutcome:
        """The first answer wins and replaces a failure; `due`: the caller publishes the callback.

        `accepted_at_ms`: of the request that was worked for, where that is known.
        """
        ...

    def join(self, request_id: str, *, force: bool = False) -> Snapshot | None:
        """A frozen snapshot; None: too early, taken by another, or ended."""
        ...

    def finish(self, request_id: str, *, by: str, tail: str, is_complete: bool) -> int | None:
        """The terminal write: milliseconds since acceptance for the one that won, None for all others."""
        ...

    def hasten(self, request_id: str) -> None:
        """The callback failed: let the sweeper act now."""
        ...

    def sweep(self, sweeper: str, *, most: int = 64) -> Sweep:
        """What is due, leased to this sweeper."""
        ...


class CallersSide(Protocol):
    """What a caller does; `chorale_client.ledger.CallersLedger` does it in Redis."""

    def accept(self, request: Request, *, within_s: float | None = None) -> Accepted:
        """Enter the request; a known id answers with its state.  Under overload it ends at once, as `refused`.

        `within_s` is what its caller has left of `timeout_s`, where that is less.

        Raises RequestIdConflict where the id belongs to a different request.
        """
        ...

    def result(self, request_id: str) -> bytes | None:
        """Celery's result document of an ended request, while it is kept."""
        ...

    def state(self, request_id: str) -> str | None:
        """The ledger's word for a request in flight; None where it has none."""
        ...

    def finish_failed(self, request: Request, accepted_at_ms: int) -> bytes:
        """End a request that nobody ended, also without its entry; returns the result, whoever wrote it."""
        ...

    def cancel(self, request_id: str) -> bytes | None:
        """End a request as `cancelled`; the result it ended with, now or before, or None: nothing is known of it."""
        ...
