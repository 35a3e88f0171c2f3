"""What a check finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from cli.installation import Installation


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong."""

    what: str
    mend: str
    """What to do about it."""


Check: TypeAlias = Callable[[Installation], Iterator[Finding]]
"""Raises ServiceError where it cannot look, for a reason that is another check's to find."""
