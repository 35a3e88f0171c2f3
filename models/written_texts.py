"""The texts that a language model wrote for a question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from models.errors import StageFailure


@dataclass(frozen=True, slots=True)
class SomeTexts:
    """At least one text, but fewer than requested."""

    texts: tuple[str, ...]
    failure: StageFailure
    """How many texts there are, and why the first of the others is missing."""


Written: TypeAlias = tuple[str, ...] | SomeTexts | StageFailure
