"""Boosts as a plan and a pipeline have them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, field_validator


class BoostPlan(BaseModel):
    """Authority and recency, resolved (ranking.md: `1 + a * 2^(-age/half_life)`).  Unknown fields are ignored, as those of a plan."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    authority: dict[str, float] = {}
    """Factor by source type, in lower case."""
    recency_amount: float = 0.0
    recency_half_life_days: float = 365.0
    recency_step: bool = False
    """True: the whole amount up to the half-life and nothing after it, instead of a decay."""
    max_places: int | None = 5
    """How many places a boost may lift a hit; None: no bound."""

    @field_validator("authority")
    @classmethod
    def _without_case(cls, factors: dict[str, float]) -> dict[str, float]:
        return {source_type.casefold(): factor for source_type, factor in factors.items()}
