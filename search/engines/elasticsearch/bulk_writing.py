"""Sending many actions: messages of limited size, and what a busy server rejects once more."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from models.batching import in_messages
from search.engines.elasticsearch.connection import Connection
from search.engines.elasticsearch.dialect import Request, as_lines
from search.engines.elasticsearch.failures import TRANSIENT, Busy, TooLarge

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
    lines = ((action["_id"], _lines(action)) for action in actions)
    for message in in_messages(
        lines, lambda one: len(one[1]), most=_MESSAGE_ACTIONS, most_bytes=_MESSAGE_BYTES
    ):
        refused |= _sent(connection, dict(message))
    return refused


def _lines(action: Action) -> bytes:
    head = {action["_op_type"]: {"_index": action["_index"], "_id": action["_id"]}}
    return as_lines([head, action["_source"]] if "_source" in action else [head])


def _sent(connection: Connection, message: dict[str, bytes]) -> dict[str, str]:
    """`message` has the lines of each action, by its `_id`."""
    refused: dict[str, str] = {}
    for pause_s in (*_PAUSES_S, None):
        try:
            failed = _failed(connection, message)
        except TooLarge:
            return refused | dict.fromkeys(message, _TOO_LARGE)
        except Busy:
            if pause_s is None:
                raise
            failed = {key: {"status": min(TRANSIENT)} for key in message}
        if pause_s is None:
            return refused | {key: _reason(outcome) for key, outcome in failed.items()}
        refused |= {
            key: _reason(outcome) for key, outcome in failed.items() if outcome["status"] not in TRANSIENT
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

    failed: dict[str, dict[str, Any]] = connection.send(
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
