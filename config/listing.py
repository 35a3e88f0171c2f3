"""Options of the branches of kind `document`."""

from __future__ import annotations

from pydantic import Field, field_validator

from config.declarations import Declared


class ListingOptions(Declared):
    """In which order the documents that a request's filters let through are listed."""

    order_by: str = Field("published_at", min_length=1, max_length=256)
    """A metadata field; documents without it come last."""
    descending: bool = True
    """The newest, or largest, first."""

    @field_validator("order_by")
    @classmethod
    def _is_metadata(cls, value: str) -> str:
        if value in ("document_id", "source"):
            raise ValueError(f"{value!r} is no metadata, though filters know it")
        return value
