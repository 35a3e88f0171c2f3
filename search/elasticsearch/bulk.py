"""Sending many changes in pieces, slower when the server asks for it; a refused change fails alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from elasticsearch import ApiError
from elasticsearch.helpers import streaming_bulk

from search.elasticsearch.connection import Connection
from search.elasticsearch.failures import PASSING, readable, translated

_CHUNK_ACTIONS = 500
_CHUNK_BYTES = 8_000_000
_RETRIES = 8
_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 10.0

Action = dict[str, Any]


def send(connection: Connection, actions: Iterable[Action]) -> dict[str, str]:
    """The reason for each failed action, by its `_id`; raises a store's failure if all failed.

    Actions refused as too many at once (429) are retried for about 40 s.
    """
    refused: dict[str, str] = {}
    unanswered: set[str] = set()

    def noted() -> Iterator[Action]:
        for action in actions:
            unanswered.add(action["_id"])
            yield action

    with translated(connection.address), readable(connection.address):
        results = streaming_bulk(
            connection.bulk_client(),
            noted(),
            chunk_size=_CHUNK_ACTIONS,
            max_chunk_bytes=_CHUNK_BYTES,
            raise_on_error=False,
            raise_on_exception=False,
            max_retries=_RETRIES,
            initial_backoff=_FIRST_PAUSE_S,
            max_backoff=_LONGEST_PAUSE_S,
            retry_on_status=tuple(PASSING),
        )
        for is_done, result in results:
            ((operation, told),) = result.items()
            unanswered.discard(told["_id"])
            if is_done or (operation == "delete" and told.get("status") == 404):
                continue
            error = told.get("exception")
            if error is not None and not (isinstance(error, ApiError) and error.status_code == 413):
                raise error
            refused[told["_id"]] = _reason(told)
        if unanswered:
            raise LookupError(f"no result for {len(unanswered)} of the actions that were sent")
    return refused


def _reason(told: Mapping[str, Any]) -> str:
    error = told.get("error")
    if told.get("status") == 413:
        return "the request is too large for the server: split the document, or raise http.max_content_length"
    if isinstance(error, Mapping):
        cause = error.get("caused_by")
        detail = cause.get("reason") if isinstance(cause, Mapping) else None
        return f"{error.get('type')}: {error.get('reason')}{f' ({detail})' if detail else ''}"[:300]
    return str(error)[:300]
