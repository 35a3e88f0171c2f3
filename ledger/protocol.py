"""What the ledger promises; the protocol of a request, moment by moment, is in docs/reference/ledger.md.

The ledger owns the join: who is expected, who has answered, and the first terminal write, which wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from models.branch_result import BranchResult


@dataclass(frozen=True, slots=True)
class BranchDispatch:
    """One branch of a plan.  `message` is the rendered message; empty if the caller publishes it."""

    branch: str
    queue: str
    limit_ms: int
    resend_after_ms: int
    message: bytes = b""
    hedge_after_ms: int | None = None
    """Time after which a part without an answer is sent again, as attempt 2.  None: never."""
    is_decisive: bool = False
    """The failure of this branch ends the wait for the others."""
    lease_ms: int = 0
    """Time from its start after which a part without an answer is sent again: its worker may have died.  0: never."""


@dataclass(frozen=True, slots=True)
class Chord:
    """A plan, and its parts."""

    request: bytes
    """The request as it stands in the ledger; the plan's signature covers it."""
    plan: bytes
    parts: Sequence[BranchDispatch]
    finish_reserve_ms: int
    fusion_reserve_ms: int
    coalescing_key: str | None = None
    """The key that equal requests in flight share."""


@dataclass(frozen=True, slots=True)
class Started:
    """What a branch learns when it starts."""

    remaining_ms: int
    request: bytes
    plan: bytes
    since_accepted_ms: int
    accepted_at_ms: int
    """Tells this request from a later one with the same id."""
    mac: bytes = field(default=b"", compare=False)
    """The signature of the plan, which the signature of the answer covers."""
    is_signed: bool = field(default=True, compare=False)
    """False: no worker of this installation has made this plan for this request."""
    deadline_ms: int = field(default=0, compare=False)
    coalescing_key: str | None = field(default=None, compare=False)
    is_sent_again: bool = field(default=False, compare=False)
    """A second message was sent for the part."""


@dataclass(frozen=True, slots=True)
class UnreportedResult:
    """The result of a branch that the end of its request brings, because nobody reported it."""

    branch: str
    status: str
    wire: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A request in flight."""

    request_id: str
    state: str
    """accepted, planned, following or fusing; in a snapshot the state before the join."""
    request: bytes
    plan: bytes | None
    branch_results: Mapping[str, bytes]
    """Results by branch.  A failure is kept here too while a second attempt is out."""
    started: Mapping[str, int]
    """When a worker first started a branch, by branch; milliseconds since 1970, as all moments."""
    sent_again: Mapping[str, int]
    """When a second message was sent, by branch."""
    decided_by: str | None
    """The branch whose failure ended the wait for the others."""
    accepted_at_ms: int
    deadline_ms: int
    coalescing_key: str | None = None
    """The key of the equal requests that this request leads."""

    def at(self, now_ms: int, **rest: Any) -> Snapshot:
        return Snapshot(
            **{field.name: getattr(self, field.name) for field in fields(self)}, now_ms=now_ms, **rest
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(Entry):
    """An entry as the join froze it."""

    now_ms: int
    is_signed: bool = field(default=True, compare=False)
    """False: no worker of this installation has made this plan for this request."""
    forged: frozenset[str] = field(default=frozenset(), compare=False)
    """The branches whose results no worker of this installation has made for this plan."""
    reported: Mapping[str, BranchResult] = field(default_factory=dict, compare=False)
    """The results by branch that this process has just reported, or never reports.  `branch_results` has the other results."""
    unreported: Sequence[UnreportedResult] = field(default=(), compare=False)
    """The results of a request that its process joins itself, without reports (`ledger.local_join`)."""

    @property
    def remaining_ms(self) -> int:
        return self.deadline_ms - self.now_ms

    @property
    def since_accepted_ms(self) -> int:
        return self.now_ms - self.accepted_at_ms


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """A message from a queue, and what the ledger answered to its first step."""

    queue: str
    message: bytes
    """Empty for the message that the worker gave."""
    is_known: bool
    """False: the message is for neither a branch nor the fusion, and Celery handles it."""
    started: Started | None = None
    """The part of a branch; None if nobody waits for it any more."""
    joined: Snapshot | None = None
    """The request of a fusion; None as for `join`."""


@dataclass(frozen=True, slots=True)
class End:
    """A terminal write."""

    request_id: str
    body: bytes | str
    """The answer as a JSON object without its head, which the script puts in front."""
    is_complete: bool
    outcomes: Sequence[Any] = ()
    """`Breakers.arguments`."""
    coalescing_key: str | None = None
    """The followers with this key may have the answer; None: they are planned anew."""
    completed: str = ""
    """For the audit alone: JSON of the scores that completed rankings, by branch for each question asked.  Empty: none."""
    plan: bytes = b""
    """For the audit alone: the plan of a request that was never published.  Empty: the ledger has it, or there is none."""
    unreported: Sequence[UnreportedResult] = ()
    """Results that the end stores, because nobody reported them."""
    accepted_at_ms: int = 0
    """Distinguishes the request of `unreported` from a later request with the same id."""


@dataclass(frozen=True, slots=True)
class Action:
    """Something that is due; or a malformed entry that was deleted (`quarantine`), or that could not be read (`error`)."""

    do: Literal["retrieve", "plan", "part", "hedge", "fuse", "end", "quarantine", "error"]
    request_id: str
    branch: str | None = None
    """What is wrong with a malformed entry."""


@dataclass(frozen=True, slots=True)
class Sweep:
    actions: tuple[Action, ...]
    next_in_ms: int | None
    """Milliseconds until the next moment, or until the lease of the sweeper that acts ends; None: nothing is in flight."""
    is_acting: bool
    """False: another sweeper holds the lease."""


PlanOutcome = Literal["planned", "follows", "known", "closed"]
ReportOutcome = Literal["counted", "waits", "joined", "due", "replaced", "duplicate", "closed"]
"""`waits`: the failure is kept, and counts when the other attempt fails too.  `due`: the caller publishes the callback."""
