"""Deletes requests that are not in the audit tables yet: from the outbox, and from the entries set aside.

Delete here first, then call `table_deletion.wait_for_drainers`, then delete from the tables.  Nothing comes in later,
because a drainer checks before it commits that its entries are still in the outbox.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import redis
from chorale_client.keys import OUTBOX, TO_TELL
from pydantic_core import to_json

from audit.outbox import UNREADABLE, named, request_of
from audit.rows import column_of

PAGE = 64
"""Entries that are read together; an entry of a large bulk request can have megabytes."""

STREAMS = (OUTBOX, UNREADABLE)
"""An entry can move only from the first to the second."""


def waiting(client: redis.Redis, column: str, value: str) -> int:
    """Number of entries of requests whose `column` (request_id, correlation_id, namespace) has this value."""
    return sum(1 for _ in _entries(client, column, value))


def erase(client: redis.Redis, column: str, value: str) -> int:
    """Delete these entries, so that nobody is told of these ends any more; returns how many entries there were."""
    for stream, entry in _entries(client, column, value, TO_TELL):
        client.xdel(stream, entry)
    return sum(client.xdel(stream, entry) for stream, entry in _entries(client, column, value))


def is_of(fields: Mapping[bytes, bytes], column: str, value: str) -> bool:
    """Whether the entry belongs to such a request.  An unreadable entry does if it contains the value anywhere."""
    try:
        given = named(fields)
        if column == "request_id":
            return given["id"] == value.encode()
        return column_of(request_of(given), column) == value
    except (ValueError, KeyError, TypeError, AttributeError):
        spellings = value.encode(), to_json(value)[1:-1]
        return any(one in raw for raw in fields.values() for one in spellings)


def _entries(client: redis.Redis, column: str, value: str, *streams: str) -> Iterator[tuple[str, Any]]:
    for stream in streams or STREAMS:
        after = "-"
        while page := cast("list[tuple[bytes, Any]]", client.xrange(stream, min=after, count=PAGE)):
            for entry, fields in page:
                if is_of(fields, column, value):
                    yield stream, entry
            after = f"({page[-1][0].decode()}"
