"""The options of branches of kind `hybrid`, which leave the fusion of text and vector to their store."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from config.declarations import Declared


class HybridOptions(Declared):
    alpha: float = Field(0.75, ge=0, le=1)
    """Weight of the vectors, the rest is BM25's; .75 is Weaviate's own default."""
    fusion: Literal["relative", "ranked"] = "relative"
    """By scores between the lowest and the highest found, or by ranks alone."""
