"""A namespace as the service shows it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Namespace(BaseModel):
    """Unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    documents: int
    passages: int
    generation: int
    """Rises with each change."""
