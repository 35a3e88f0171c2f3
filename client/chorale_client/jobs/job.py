"""A bulk job as its submitter describes it, and as the service shows it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from chorale_client.callbacks import is_address, is_name
from chorale_client.request import Namespace
from chorale_client.wire_names import WIRE_VERSION


def _without_nul(value: str) -> str:
    # PostgreSQL cannot store this character.
    if "\0" in value:
        raise ValueError("the character U+0000 is not allowed")
    return value


def _check_callback(value: dict[str, str]) -> dict[str, str]:
    if set(value) not in ({"task", "queue"}, {"url"}) or not all(map(is_name, value.values())):
        raise ValueError('either {"task": name, "queue": name} or {"url": address}')
    if "url" in value:
        if not is_address(value["url"]):
            raise ValueError("url: no address")
        _check_url(value["url"])
    return value


Name = Annotated[str, Field(max_length=256), AfterValidator(_without_nul)]


class Submission(BaseModel):
    """What belongs to a job besides its lines."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    namespace: Namespace
    name: Name = ""
    tenant: Name = ""
    """Jobs of several tenants take turns.  If empty, the namespace."""
    weight: float = Field(1.0, ge=0.001, le=1000)
    """The tenant's share: with 2, twice as many lines as a tenant with 1."""
    deadline_s: float | None = Field(None, gt=0, le=365 * 86_400)
    """Seconds after the submission at which the job ends as `expired`."""
    on_end: Annotated[dict[str, str], AfterValidator(_check_callback)] | None = None
    """`{"task": name, "queue": name}` or `{"url": address}`: the receiver of the job's end."""


class Job(BaseModel):
    """A bulk job at one moment.  Unknown fields are ignored, and words are open strings."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = WIRE_VERSION
    job_id: str
    name: str = ""
    namespace: str
    tenant: str = ""
    weight: float = 1.0
    state: Literal["validating", "queued", "running", "paused", "cancelling", "ended"] | str
    outcome: Literal["completed", "expired", "cancelled", "failed"] | str | None = None
    """How the job ended; None until then."""
    reason: str = ""
    total: int = 0
    """Number of lines."""
    counts: dict[str, int] = {}
    """Number of lines by status: `pending running complete degraded failed skipped refused expired cancelled`; they sum
    to `total`."""
    deduplicated: int = 0
    """Number of lines whose answer was known already."""
    rate_1m: float | None = None
    """Lines a second during the last minute."""
    eta_s: float | None = None
    """Seconds until the job ends at this rate."""
    created_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    deadline_at: datetime | None = None
    on_end: dict[str, Any] | None = None

    @property
    def is_ended(self) -> bool:
        return self.state == "ended"

    @property
    def done(self) -> int:
        """Number of lines with a final result."""
        return self.total - self.counts.get("pending", 0) - self.counts.get("running", 0)


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("no address") from None
    if not host or parts.scheme not in ("http", "https"):
        raise ValueError("the address begins with https://")
    if parts.username is not None or parts.fragment:
        raise ValueError("the address has no login and no fragment")
