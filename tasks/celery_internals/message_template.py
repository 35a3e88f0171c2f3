"""A task's message rendered ahead of time, so that one Redis script can push it.

This relies on two facts beyond Celery's documented interface:

* A message on a Redis list is the JSON document that kombu's virtual transports exchange, which workers of other
  versions read too.  The list has the queue's name while `priority_steps` is `[0]`.
* The body is `[args, kwargs, {callbacks, errbacks, chain, chord}]` (Celery's documented task protocol 2).

`Template` lets Celery render a message on kombu's in-memory transport, and fills in ids and arguments only.
"""

from __future__ import annotations

import json
import re
import threading
from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from celery import Celery
from chorale_client.retrieve_message import WITHOUT_ARGUMENTS
from kombu import Connection
from pydantic_core import to_json

_TURN = threading.Lock()
_IDS = ("task_id", "root_id", "parent_id", "group_id", "group_index")


class Template:
    """The message of one task, with places for ids and arguments."""

    def __init__(self, app: Celery, task: str, queue: str) -> None:
        ids: dict[str, Any] = {name: str(uuid4()) for name in _IDS}
        message = rendered_by_celery(app, task, queue, **ids)
        places = {**ids, "tag": str(uuid4()), "body": str(uuid4())}
        message["properties"]["delivery_tag"], message["body"] = places["tag"], places["body"]
        # Texts and names of places in turn: what is filled in is never searched for places.
        names = {json.dumps(place): name for name, place in places.items()}
        self._parts = [
            names.get(part, part) for part in re.split(f"({'|'.join(names)})", json.dumps(message))
        ]

    def render(
        self,
        task_id: str,
        kwargs: dict[str, Any],
        *,
        root_id: str,
        parent_id: str | None = None,
        group_id: str | None = None,
        group_index: int | None = None,
        chord: Mapping[str, Any] | None = None,
    ) -> bytes:
        """The message, ready to be pushed onto the queue's list.  `chord` is the signature of a chord's callback."""
        body = to_json([[], kwargs, {"callbacks": None, "errbacks": None, "chain": None, "chord": chord}])
        filled = {
            "task_id": task_id,
            "root_id": root_id,
            "parent_id": parent_id,
            "group_id": group_id,
            "group_index": group_index,
            "tag": str(uuid4()),
            "body": b64encode(body).decode(),
        }
        values = {name: json.dumps(value) for name, value in filled.items()}
        return "".join(values.get(part, part) for part in self._parts).encode()


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
