"""The base of what a pipeline file declares."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict


def _variable(name: str) -> str:
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,127}", name):
        # Not quoted: it may be the key itself.
        raise ValueError("the name of an environment variable, never the key itself")
    return name


Variable: TypeAlias = Annotated[str, AfterValidator(_variable)]


class Declared(BaseModel):
    """Read strictly: an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
