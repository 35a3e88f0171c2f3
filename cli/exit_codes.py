"""What a command's exit code says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from chorale_client.words import Status

OTHER: Final = 1
"""Anything that is not listed here."""
WRONG_USAGE: Final = 2
PART_DONE: Final = 8
"""Of what was to be done, such as documents to index, not all could be."""

BY_STATUS: Mapping[str, int] = {
    Status.COMPLETE: 0,
    Status.DEGRADED: 3,
    Status.FAILED: 4,
    Status.SKIPPED: 5,
    Status.CANCELLED: 6,
    Status.REFUSED: 7,
}
"""Of a command that asked, by the status of the answer; read with `.get(status, OTHER)`."""
