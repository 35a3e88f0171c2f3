"""The Lua scripts that a caller needs; the service's own are in its `ledger` folder."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

PRELUDE = files(__name__).joinpath("prelude.lua").read_text(encoding="utf-8")


@cache
def source(name: str, prelude: str = PRELUDE) -> str:
    """The whole text of a caller's script, prelude included."""
    return prelude + "\n" + files(__name__).joinpath(f"{name}.lua").read_text(encoding="utf-8")
