"""Options of the stores of kind `embedded`."""

from __future__ import annotations

from pydantic import Field

from config.declarations import Declared


class EmbeddedOptions(Declared):
    """Where it keeps its documents."""

    folder: str = Field("corpus", min_length=1, pattern=r"^[^\\0]+$")
    """Absolute, or inside the installation's own."""
