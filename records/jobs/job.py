"""A bulk job, its states, and how its lines ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from chorale_client.jobs.job_line import JobLine
from chorale_client.limits import MAX_QUESTIONS
from chorale_client.wire_names import WIRE_VERSION

from models.errors import ServiceError

SEGMENT_LINES = MAX_QUESTIONS
"""Lines of a segment, which one worker answers at once."""


class State(StrEnum):
    """What happens to a job now."""

    VALIDATING = "validating"
    """Its lines are still arriving."""
    QUEUED = "queued"
    """All lines are stored; no segment has been sent yet."""
    RUNNING = "running"
    PAUSED = "paused"
    """Segments that were sent before are still answered."""
    CANCELLING = "cancelling"
    """Waits for the segments that workers have."""
    ENDED = "ended"


class Outcome(StrEnum):
    """How a job ended."""

    COMPLETED = "completed"
    """Every line has its result."""
    EXPIRED = "expired"
    """The deadline came first."""
    CANCELLED = "cancelled"
    FAILED = "failed"
    """The file was refused, or every line failed."""


COUNTED = ("running", "complete", "degraded", "failed", "skipped", "refused", "expired", "cancelled")
"""The counts that are columns.  `pending` is the rest of `total`."""

RETRIED = ("failed", "expired", "degraded")
"""What `retry` can answer again; `expired` includes cancelled lines."""


class JobsUnavailable(ServiceError):
    """The database of the jobs does not answer, or is locked."""


class NoSuchJob(ServiceError):
    """No job has this id."""


class WrongState(ServiceError):
    """The job's state does not allow this."""


@dataclass(frozen=True, slots=True)
class NewJob:
    job_id: str
    namespace: str
    name: str = ""
    tenant: str = ""
    """Jobs of several tenants take turns.  If empty, the namespace."""
    weight: float = 1.0
    """The tenant's share: with 2, twice as many lines as a tenant with 1."""
    deadline_at_ms: int | None = None
    on_end: Mapping[str, str] | None = None
    """`{"task": name, "queue": name}` or `{"url": address}`: the receiver of the job's end."""


Line = JobLine
"""A line as it is stored."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive lines that a worker has taken."""

    job_id: str
    number: int
    attempt: int
    tries: int
    """How often a worker has begun the segment, this time included."""
    again: int
    """How often lines of the segment were answered again after a failure that may pass."""
    lines: Sequence[Line]
    results: Sequence[dict[str, Any] | None]
    """One for each line; None where there is no result yet."""
    remaining: Sequence[int]
    """The places of the lines that have no final result."""
    suspect: int | None
    """The line that a worker answered alone when it died."""
    namespace: str
    done_before: int
    """How many lines of the job had a result when this segment was taken."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job's row."""

    job_id: str
    name: str
    namespace: str
    tenant: str
    weight: float
    state: str
    outcome: str | None
    reason: str
    on_end: Mapping[str, str] | None
    callback_sent: int
    created_at_ms: int
    touched_at_ms: int
    started_at_ms: int | None
    ended_at_ms: int | None
    deadline_at_ms: int | None
    segments: int
    total: int
    running: int
    complete: int
    degraded: int
    failed: int
    skipped: int
    refused: int
    expired: int
    cancelled: int
    deduplicated: int
    rate_1m: float | None

    @property
    def counts(self) -> dict[str, int]:
        """The lines by status; they sum to `total`."""
        counted: dict[str, int] = {name: getattr(self, name) for name in COUNTED}
        return {"pending": self.total - sum(counted.values()), **counted}

    @property
    def done(self) -> int:
        """Number of lines with a final result."""
        counts = self.counts
        return self.total - counts["pending"] - counts["running"]

    @property
    def answered(self) -> int:
        """Number of lines that were worked on; the lines that a cancelled or expired job left are done, too."""
        return self.done - self.counts["cancelled"] - self.counts["expired"]

    @property
    def eta_s(self) -> float | None:
        """Seconds until the job ends at its present rate; None if it does not run."""
        if self.state != State.RUNNING or not self.rate_1m:
            return None
        return (self.total - self.done) / self.rate_1m

    def to_wire(self) -> dict[str, Any]:
        """The job as `chorale jobs show --json` and the client show it."""
        eta_s = self.eta_s
        return {
            "v": WIRE_VERSION,
            **{name: getattr(self, name) for name in ("job_id", "name", "namespace", "tenant", "weight")},
            **{name: getattr(self, name) for name in ("state", "outcome", "reason", "total")},
            "counts": self.counts,
            "deduplicated": self.deduplicated,
            "rate_1m": None if self.rate_1m is None else round(self.rate_1m, 2),
            "eta_s": None if eta_s is None else round(eta_s, 1),
            **{
                f"{name}_at": moment(getattr(self, f"{name}_at_ms"))
                for name in ("created", "started", "ended", "deadline")
            },
            "on_end": self.on_end,
        }


def moment(at_ms: int | None) -> str | None:
    """ISO 8601, UTC."""
    return (
        None
        if at_ms is None
        else datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    )


def unanswered(status: str, error: str) -> dict[str, Any]:
    """The result of a line that was not answered."""
    return {
        "status": status,
        "coverage": 0.0,
        "hits": [],
        "degraded": [],
        "warnings": [],
        "error": error,
        "deduplicated": False,
    }
