"""What a check of `chorale doctor` yields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from cli.installation import Installation
from models.errors import StageFailure


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    what: str
    mend: str
    """What to do about it."""
    is_remark: bool = False
    """A remark is only shown: the check counts as well, and the exit code stays 0."""


def finding_of(failure: StageFailure, *, where: str = "", mend: str = "see the store's log") -> Finding:
    """The failure of a store, whose message usually ends with `; ` and what to do about it; if not, `mend` is."""
    what, semicolon, remedy = failure.detail.rpartition("; ")
    return Finding(where + what, remedy) if semicolon else Finding(where + failure.detail, mend)


Check: TypeAlias = Callable[[Installation], Iterator[Finding]]
"""Raises ServiceError where the check cannot be made for a reason that another check finds."""
