"""Task messages rendered ahead of time, so that one Redis script can push them.

This relies on two facts beyond Celery's documented interface:

* A message on a Redis list is the JSON document that kombu's virtual transports exchange, which workers of other
  versions read too.  The list has the queue's name while `priority_steps` is `[0]`.
* The body is `[args, kwargs, {callbacks, errbacks, chain, chord}]` (Celery's documented task protocol 2).

`Template` lets Celery render a message on kombu's in-memory transport, and fills in ids and arguments only.  `check`
compares a filled-in message with one that Celery renders; where they differ, the process publishes plain chords.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any
from uuid import uuid4

from celery import Celery
from kombu import Connection
from pydantic_core import to_json

_TASK_ID, _ROOT_ID, _PARENT_ID, _GROUP_ID, _TAG, _BODY = (
    f"00000000-0000-4000-8000-00000000000{digit}" for digit in range(6)
)


class Template:
    """The message of one task, with places for ids and arguments."""

    def __init__(self, app: Celery, task: str, queue: str) -> None:
        message = _render(
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


def check(app: Celery, task: str, queue: str) -> str | None:
    """How a rendered message differs from Celery's own for the same task; None if it does not."""
    kwargs = {"request_id": "probe", "branch": "probe"}
    ids = {"root_id": "root", "parent_id": "parent", "group_id": "group"}
    try:
        rendered = Template(app, task, queue).render(
            "probe:probe", kwargs, root_id="root", parent_id="parent", group_id="group"
        )
        ours = json.loads(rendered)
        theirs = _render(app, task, queue, task_id="probe:probe", kwargs=kwargs, **ids)
        for message in (ours, theirs):
            message["properties"].pop("delivery_tag", None)
            message["body"] = json.loads(b64decode(message["body"]))
    except Exception as error:  # whatever a new version raises: plain chords work all the same
        return f"{type(error).__name__}: {error}"
    for part in ("body", "headers", "properties", "content-type", "content-encoding"):
        if ours.get(part) != theirs.get(part):
            return f"{part}: {ours.get(part)!r} is not {theirs.get(part)!r}"
    return None if ours.keys() == theirs.keys() else f"fields: {sorted(ours)} are not {sorted(theirs)}"


def _render(
    app: Celery, task: str, queue: str, *, kwargs: dict[str, Any] | None = None, **ids: Any
) -> dict[str, Any]:
    """The message as Celery and kombu put it on the wire, taken from the in-memory transport."""
    with Connection("memory://") as connection, connection.Producer() as producer:
        declared = app.amqp.queues[queue].bind(producer.channel)
        declared.declare()
        declared.purge()
        # Celery repeats the arguments in the headers, for logs and Flower; left out, since they contain texts.
        app.send_task(
            task,
            (),
            kwargs or {},
            queue=queue,
            producer=producer,
            ignore_result=True,
            argsrepr="()",
            kwargsrepr="{}",
            **ids,
        )
        message: dict[str, Any] = producer.channel._get(queue)
        return message
