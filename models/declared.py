"""The base of what a pipeline file declares."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Declared(BaseModel):
    """Read strictly: an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
