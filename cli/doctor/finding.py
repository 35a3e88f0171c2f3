"""What a check of `chorale doctor` yields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from cli.installation import Installation


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    what: str
    mend: str
    """What to do about it."""


Check: TypeAlias = Callable[[Installation], Iterator[Finding]]
"""Raises ServiceError where the check cannot be made for a reason that another check finds."""
