"""What a PDF or Office file says of itself, as metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingest.collection_rows import iso_moment, with_reserved
from ingest.raw_documents import Fault
from models.left_out import LeftOut


def properties_as_metadata(
    author: str, dates: Mapping[str, str], fields: Mapping[str, str]
) -> tuple[dict[str, Any], list[Fault]]:
    """`author`, the dates in ISO 8601, and a fault for each date in another form."""
    moments = {name: iso_moment(date) for name, date in dates.items() if date.strip()}
    own = {"author": author.strip()} | {name: moment or "" for name, moment in moments.items()}
    metadata, notes = with_reserved({name: value for name, value in own.items() if value}, fields)
    notes += [
        f"{name}: {dates[name][:60]!r} is not a date; indexed without it"
        for name, moment in moments.items()
        if moment is None
    ]
    return metadata, [Fault(LeftOut.METADATA, note) for note in notes]
