"""Options of the branches of kind `document`."""

from __future__ import annotations

from pydantic import Field

from config.declarations import Declared


class ListingOptions(Declared):
    """In which order the documents that a request's filters let through are listed."""

    order_by: str = Field("published_at", min_length=1, max_length=256)
    """A metadata field; documents without it come last."""
    descending: bool = True
    """The newest, or largest, first."""
