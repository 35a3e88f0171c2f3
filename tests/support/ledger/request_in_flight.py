"""A request in flight as plain values, for the model of the ledger; docs/reference/ledger.md explains them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from chorale_client.protocol_constants import ProtocolConstants
from chorale_client.words import EnvelopeStatus

from ledger.protocol import Entry, Part, ReportOutcome
from models.envelope import Envelope


@dataclass(slots=True)
class PartInFlight:
    queue: str
    limit_at_ms: int
    resend_at_ms: int
    hedge_at_ms: int | None = None
    is_decisive: bool = False
    lease_ms: int = 0
    resent: int = 0
    is_hedged: bool = False
    started_at_ms: int | None = None
    status: str | None = None
    failed_attempt: int | None = None
    """The attempt that failed while the other one is out."""
    envelope: bytes = b""

    @classmethod
    def of(cls, part: Part, now_ms: int) -> PartInFlight:
        hedge_ms = part.hedge_after_ms
        is_worth_it = hedge_ms is not None and hedge_ms < part.limit_ms
        return cls(
            part.queue,
            now_ms + part.limit_ms,
            now_ms + part.resend_after_ms,
            now_ms + hedge_ms if hedge_ms is not None and is_worth_it else None,
            part.is_decisive,
            part.lease_ms,
        )

    @property
    def first_moment_ms(self) -> int:
        """Returns the moment at which a sweeper first looks at the request."""
        return self.resend_at_ms if self.hedge_at_ms is None else min(self.resend_at_ms, self.hedge_at_ms)

    @property
    def may_be_lost(self) -> bool:
        """Nobody has started it, or the worker that did may have died."""
        return self.status is None and (self.started_at_ms is None or self.lease_ms > 0)

    @property
    def next_resend_ms(self) -> int:
        lease_over_ms = 0 if self.started_at_ms is None else self.started_at_ms + self.lease_ms
        return max(self.resend_at_ms, lease_over_ms)

    def take(self, envelope: Envelope) -> ReportOutcome:
        """Keeps a branch's report if it is new; returns `counted` for the first one that counts."""
        status, known = str(envelope.status), self.status
        if known is not None and (known != EnvelopeStatus.FAILED or status == EnvelopeStatus.FAILED):
            return "duplicate"
        if known is None and status == EnvelopeStatus.FAILED and self.is_hedged:
            if self.failed_attempt == envelope.attempt:
                return "duplicate"
            if self.failed_attempt is None:
                self.failed_attempt, self.envelope = envelope.attempt, envelope.to_wire()
                return "waits"
        self.status, self.envelope = status, envelope.to_wire()
        return "counted" if known is None else "replaced"


@dataclass(slots=True)
class RequestInFlight:
    """Times are milliseconds by the ledger's clock."""

    request: bytes
    questions: int
    fingerprint: str
    head: str
    accepted_at_ms: int
    deadline_ms: int
    answer_ttl_ms: int
    constants: ProtocolConstants
    state: str = "accepted"
    plan: bytes | None = None
    parts: dict[str, PartInFlight] = field(default_factory=dict)
    decided_by: str | None = None
    """The branch whose failure decided the request."""
    join_at_ms: int = 0
    fusing_until_ms: int = 0
    finish_reserve_ms: int | None = None
    fusion_reserve_ms: int | None = None
    retrieves_sent: int = 0
    fuses_sent: int = 0
    flight: str | None = None
    """The flight that this request leads."""
    leader: str | None = None
    followed: int = 0
    leader_late: int = 0

    @property
    def end_at_ms(self) -> int:
        """Returns the moment at which the sweeper ends the request; before the plan, the reserve follows from the time limit."""
        if self.finish_reserve_ms is not None:
            return self.deadline_ms - self.finish_reserve_ms
        share_ms = (self.deadline_ms - self.accepted_at_ms) * self.constants.finish_reserve_percent // 100
        return self.deadline_ms - min(self.constants.longest_finish_reserve_ms, share_ms)

    @property
    def left(self) -> int:
        """Returns the number of branches that the request waits for."""
        return 0 if self.decided_by else sum(part.status is None for part in self.parts.values())

    @property
    def envelopes(self) -> dict[str, bytes]:
        return {name: part.envelope for name, part in self.parts.items() if part.envelope}

    def open_part(self, branch: str) -> PartInFlight | None:
        """Returns the part, if the request waits for it."""
        return self.parts.get(branch) if self.state == "planned" and self.decided_by is None else None

    def may_join(self, now_ms: int) -> bool:
        if self.state == "planned":
            return self.left <= 0 or now_ms >= self.join_at_ms
        return self.state == "fusing" and now_ms >= self.fusing_until_ms

    def entry(self, request_id: str) -> Entry:
        return Entry(
            request_id=request_id,
            state=self.state,
            request=self.request,
            plan=self.plan,
            envelopes=self.envelopes,
            started=frozenset(name for name, part in self.parts.items() if part.started_at_ms is not None),
            decided_by=self.decided_by,
            accepted_at_ms=self.accepted_at_ms,
            deadline_ms=self.deadline_ms,
            flight=self.flight,
        )

    def answer(self, tail: str, now_ms: int) -> str:
        return f'{{{self.head},"took_ms":{max(0, now_ms - self.accepted_at_ms)},{tail}'

    def result(self, request_id: str, answer: str, now_ms: int) -> bytes:
        """Celery's result document."""
        date_done = datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds")
        return (
            f'{{"status":"SUCCESS","traceback":null,"children":[],"date_done":"{date_done}",'
            f'"task_id":"{request_id}","fingerprint":"{self.fingerprint}","result":{answer}}}'
        ).encode()

    def outbox_fields(
        self, request_id: str, answer: str, by: str, now_ms: int, *, is_filling: bool
    ) -> dict[bytes, bytes]:
        """Returns the fields for the audit, without candidates if many entries wait for the audit already."""
        said = {
            "id": request_id,
            "accepted_at": str(self.accepted_at_ms),
            "ended_at": str(now_ms),
            "by": by,
            "request": self.request.decode(),
            "plan": (self.plan or b"").decode(),
            "answer": answer,
        }
        envelopes = {f"envelope:{name}".encode(): envelope for name, envelope in self.envelopes.items()}
        for name, part in self.parts.items() if is_filling else ():
            if part.status == EnvelopeStatus.OK:
                brief = f'{{"v":1,"branch":"{name}","status":"ok","rankings":[],"left_out":true}}'
                envelopes[f"envelope:{name}".encode()] = brief.encode()
        return {name.encode(): value.encode() for name, value in said.items()} | envelopes
