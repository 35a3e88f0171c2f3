"""What a language model wrote for a question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from models.errors import StageFailure


@dataclass(frozen=True, slots=True)
class SomeTexts:
    """At least one text, and fewer than were asked for."""

    texts: tuple[str, ...]
    failure: StageFailure
    """How many came, and why the first of the others did not."""


Written: TypeAlias = tuple[str, ...] | SomeTexts | StageFailure
