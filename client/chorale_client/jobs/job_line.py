"""A line of a job's input.  `chorale_client.jobs.lines` reads and checks it; the service stores and answers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

METADATA = "metadata"
"""What the results repeat: an object, and the columns of a CSV file that are no fields of a line."""


@dataclass(frozen=True, slots=True)
class JobLine:
    """One checked line of the input."""

    number: int
    """From 1.  In CSV it counts rows, and the header is row 1."""
    id: str
    """The line's own id, else its number."""
    fields: dict[str, Any] | None
    """The options of its request that are not the defaults, with `questions`; None for a wrong line."""
    error: str | None = None
    """What is wrong with the line."""
