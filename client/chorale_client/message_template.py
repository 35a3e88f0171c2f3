"""A task's message rendered ahead of time, so that one Redis script can push it.

This relies on two facts beyond Celery's documented interface:

* A message on a Redis list is the JSON document that kombu's virtual transports exchange, which workers of other
  versions read too.  The list has the queue's name while `priority_steps` is `[0]`.
* The body is `[args, kwargs, {callbacks, errbacks, chain, chord}]` (Celery's documented task protocol 2).

`Template` lets Celery render a message on kombu's in-memory transport, and fills in ids and arguments only.
"""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from celery import Celery
from kombu import Connection
from pydantic_core import to_json

_TASK_ID, _ROOT_ID, _PARENT_ID, _GROUP_ID, _TAG, _BODY = (
    f"00000000-0000-4000-8000-00000000000{digit}" for digit in range(6)
)
_TURN = threading.Lock()
WITHOUT_ARGUMENTS: Mapping[str, Any] = {"ignore_result": True, "argsrepr": "()", "kwargsrepr": "{}"}
"""Celery repeats the arguments in the headers, for logs and Flower; left out, since they contain texts."""


class Template:
    """The message of one task, with places for ids and arguments."""

    def __init__(self, app: Celery, task: str, queue: str) -> None:
        message = rendered_by_celery(
            app, task, queue, task_id=_TASK_ID, root_id=_ROOT_ID, parent_id=_PARENT_ID, group_id=_GROUP_ID
        )
        message["properties"]["delivery_tag"] = _TAG
        message["body"] = _BODY
        self._text = json.dumps(message)

    def render(
        self,
        task_id: str,
        kwargs: dict[str, Any],
        *,
        root_id: str,
        parent_id: str | None = None,
        group_id: str | None = None,
        chord: dict[str, Any] | None = None,
    ) -> bytes:
        """The message, ready to be pushed onto the queue's list.  Ids must be JSON-safe as they are."""
        body = to_json([[], kwargs, {"callbacks": None, "errbacks": None, "chain": None, "chord": chord}])
        text = self._text.replace(_TASK_ID, task_id).replace(_ROOT_ID, root_id)
        text = text.replace(f'"{_PARENT_ID}"', f'"{parent_id}"' if parent_id else "null")
        text = text.replace(f'"{_GROUP_ID}"', f'"{group_id}"' if group_id else "null")
        return text.replace(_TAG, str(uuid4())).replace(_BODY, b64encode(body).decode()).encode()


def rendered_by_celery(
    app: Celery, task: str, queue: str, *, kwargs: dict[str, Any] | None = None, **ids: Any
) -> dict[str, Any]:
    """The message as Celery and kombu put it on the wire, taken from the in-memory transport."""
    # All in-memory connections of a process share their queues.
    with _TURN, Connection("memory://") as connection, connection.Producer() as producer:
        declared = app.amqp.queues[queue].bind(producer.channel)
        declared.declare()
        declared.purge()
        app.send_task(task, (), kwargs or {}, queue=queue, producer=producer, **WITHOUT_ARGUMENTS, **ids)
        message: dict[str, Any] = producer.channel._get(queue)
        return message
