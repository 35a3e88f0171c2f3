"""The moments in this API's answers, RFC 3339 in UTC with milliseconds, and the cursors of its lists.

The tables and the broker's messages have milliseconds since 1970, or ISO 8601 with another zone.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import PlainSerializer, WithJsonSchema

from api.problems import Problem

PATTERN = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"
SCHEMA: dict[str, Any] = {
    "type": "string",
    "format": "date-time",
    "pattern": PATTERN,
    "examples": ["2026-11-26T05:46:24.123Z"],
}


def at(ms: int) -> datetime:
    """The moment so many milliseconds after 1970."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def rfc3339(moment: datetime) -> str:
    """`moment` has a zone."""
    with suppress(OverflowError):  # UTC has no year 0 and no year 10,000
        moment = moment.astimezone(UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def in_utc(text: str) -> str:
    """A caller's ISO 8601 moment, which is UTC without a zone; another text as it is."""
    try:
        moment = datetime.fromisoformat(text)
    except (ValueError, TypeError):
        return text
    return rfc3339(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


Timestamp = Annotated[
    datetime, PlainSerializer(rfc3339, return_type=str, when_used="json"), WithJsonSchema(SCHEMA)
]


def cursor_after(at_ms: int, id_: str) -> str:
    return urlsafe_b64encode(f"{at_ms}.{id_}".encode()).decode().rstrip("=")


def read_cursor(cursor: str | None) -> tuple[int, str] | None:
    """Raises Problem for a text that is no cursor."""
    if cursor is None:
        return None
    try:
        text = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)).decode()
        at_ms, dot, id_ = text.partition(".")
        if dot and id_.isprintable() and at_ms.isdecimal() and int(at_ms) < 2**63:
            return int(at_ms), id_
    except ValueError:
        pass
    raise Problem("invalid", "after: not a cursor of this list; `next` of a page is one", field="after")
