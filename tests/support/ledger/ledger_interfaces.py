"""The common interface of the Redis ledger and its model: the service's side and the caller's side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from chorale_client.ledger import Accepted
from chorale_client.request import Request

from ledger.protocol import Chord, Entry, PlanOutcome, ReportOutcome, Snapshot, Started, Sweep
from models.envelope import Envelope


class Ledger(Protocol):
    """`ledger.redis.RedisLedger` describes the methods."""

    def load(self, request_id: str) -> Entry | None: ...

    def plan(self, request_id: str, chord: Chord) -> PlanOutcome: ...

    def submit(
        self, callers: Any, request: Request, chord: Chord, generation: int, cached: Sequence[str]
    ) -> tuple[Accepted, PlanOutcome | None, Sequence[bytes | None]]: ...

    def start(self, request_id: str, branch: str) -> Started | None: ...

    def report(
        self,
        request_id: str,
        branch: str,
        envelope: Envelope,
        *,
        accepted_at_ms: int | None = None,
        callback: bytes = b"",
    ) -> ReportOutcome: ...

    def call_fusion(self, callback: bytes) -> None: ...

    def join(self, request_id: str, *, force: bool = False) -> Snapshot | None: ...

    def finish(
        self, request_id: str, *, by: str, tail: str, is_complete: bool, completed: str = ...
    ) -> int | None: ...

    def hasten(self, request_id: str) -> None: ...

    def sweep(self, sweeper: str, *, most: int = 64) -> Sweep: ...


class CallersSide(Protocol):
    """`chorale_client.ledger.CallersLedger` describes the methods."""

    def accept(self, request: Request, *, within_s: float | None = None) -> Accepted: ...

    def result(self, request_id: str) -> bytes | None: ...

    def state(self, request_id: str) -> str | None: ...

    def finish_failed(self, request: Request, accepted_at_ms: int) -> bytes: ...

    def cancel(self, request_id: str) -> bytes | None: ...
