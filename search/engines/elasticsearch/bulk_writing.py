"""Sending many actions: messages of limited size, and what a busy server rejects once more."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from search.engines.elasticsearch.connection import Connection
from search.engines.elasticsearch.dialect import Request, as_lines
from search.engines.elasticsearch.failures import PASSING, Busy, TooLarge

_MESSAGE_ACTIONS = 500
_MESSAGE_BYTES = 8_000_000
_PAUSES_S = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0)
"""Waits before what a busy server rejected is sent again."""
_TOO_LARGE = "the request is too large for the server: split the document, or raise http.max_content_length"

Action = dict[str, Any]
"""`_op_type` (`index` or `delete`), `_index`, `_id` (each once), and the `_source` of what is indexed."""


def send(connection: Connection, actions: Iterable[Action]) -> dict[str, str]:
    """The reason for each refused action, by its `_id`; raises a store's failure if a message fails."""
    refused: dict[str, str] = {}
    for message in _messages(actions):
        refused |= _sent(connection, message)
    return refused


def _messages(actions: Iterable[Action]) -> Iterator[dict[str, bytes]]:
    """The lines of each action, by its `_id`."""
    message: dict[str, bytes] = {}
    size = 0
    for action in actions:
        head = {action["_op_type"]: {"_index": action["_index"], "_id": action["_id"]}}
        lines = as_lines([head, action["_source"]] if "_source" in action else [head])
        if message and (len(message) == _MESSAGE_ACTIONS or size + len(lines) > _MESSAGE_BYTES):
            yield message
            message, size = {}, 0
        message[action["_id"]] = lines
        size += len(lines)
    if message:
        yield message


def _sent(connection: Connection, message: dict[str, bytes]) -> dict[str, str]:
    refused: dict[str, str] = {}
    for pause_s in (*_PAUSES_S, None):
        try:
            failed = _failed(connection, message)
        except TooLarge:
            return refused | dict.fromkeys(message, _TOO_LARGE)
        except Busy:
            if pause_s is None:
                raise
            failed = {key: {"status": min(PASSING)} for key in message}
        if pause_s is None:
            return refused | {key: _reason(outcome) for key, outcome in failed.items()}
        refused |= {
            key: _reason(outcome) for key, outcome in failed.items() if outcome["status"] not in PASSING
        }
        message = {key: message[key] for key in failed if key not in refused}
        if not message:
            break
        time.sleep(pause_s)
    return refused


def _failed(connection: Connection, message: Mapping[str, bytes]) -> dict[str, dict[str, Any]]:
    """What the server says of each action that it did not carry out, by its `_id`."""

    def read(answer: Any) -> dict[str, dict[str, Any]]:
        results = [result for item in answer["items"] for result in item.items()]
        if missing := message.keys() - {outcome["_id"] for _, outcome in results}:
            raise LookupError(f"no result for {len(missing)} of the actions that were sent")
        return {
            outcome["_id"]: outcome
            for operation, outcome in results
            if outcome["status"] >= 300 and (operation, outcome["status"]) != ("delete", 404)
        }

    failed: dict[str, dict[str, Any]] = connection.ask(
        Request("POST", "/_bulk", b"".join(message.values()), is_lines=True), read=read
    )
    return failed


def _reason(outcome: Mapping[str, Any]) -> str:
    error = outcome.get("error")
    if outcome["status"] == 413:
        return _TOO_LARGE
    if isinstance(error, Mapping):
        cause = error.get("caused_by")
        detail = cause.get("reason") if isinstance(cause, Mapping) else None
        return f"{error.get('type')}: {error.get('reason')}{f' ({detail})' if detail else ''}"[:300]
    return str(error)[:300]
