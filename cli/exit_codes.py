"""Exit codes of the commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from chorale_client.wire_names import Status

OTHER: Final = 1
"""Anything that is not listed here."""
WRONG_USAGE: Final = 2
PART_DONE: Final = 8
"""Part of the work was done, such as some of the documents to index."""
GOLDEN_FAILED: Final = 9
"""More golden questions failed than may fail."""

BY_STATUS: Mapping[str, int] = {
    Status.COMPLETE: 0,
    Status.DEGRADED: 3,
    Status.FAILED: 4,
    Status.SKIPPED: 5,
    Status.CANCELLED: 6,
    Status.REFUSED: 7,
}
"""Exit code of a command that asked, by the status of the answer; read it with `.get(status, OTHER)`."""


def of_job(outcome: str | None, counts: Mapping[str, int]) -> int:
    """Exit code of a command that waited for a job."""
    if outcome == "cancelled":
        return BY_STATUS[Status.CANCELLED]
    if outcome == "failed":
        return BY_STATUS[Status.FAILED]
    if outcome == "expired" or any(counts[name] for name in ("failed", "refused", "expired", "cancelled")):
        return PART_DONE
    return BY_STATUS[Status.DEGRADED] if counts["degraded"] else 0
