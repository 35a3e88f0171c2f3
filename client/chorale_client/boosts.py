"""Boosts of a request and of a pipeline file."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from chorale_client.limits import MAX_NAME_CHARS

_Name = Annotated[str, Field(max_length=MAX_NAME_CHARS)]
_Factor = Annotated[float, Field(gt=0, le=100)]


class Boosts(BaseModel):
    """Factors of a hit's score, of its source type and its date."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    authority: dict[_Name, _Factor] = Field(default_factory=dict, max_length=1_000)
    """Factor by `source_type`, in upper or lower case."""
    recency_amount: float = Field(0, ge=0, le=100)
    """A document of today has the factor 1 + `recency_amount`."""
    recency_half_life_days: float = Field(365, gt=0, le=100_000)
    recency_step: bool = False
    """True: the whole amount up to the half-life, and nothing after it."""
    max_places: int | None = Field(5, ge=0, le=1_000)
    """How many places a boost may lift a hit; None: no bound."""
