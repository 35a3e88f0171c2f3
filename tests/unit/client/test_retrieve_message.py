"""The message that the client writes itself."""

from __future__ import annotations

import json
from base64 import b64decode

from celery import Celery
from chorale_client.retrieve_message import retrieve_message
from chorale_client.wire_names import QUEUE_RETRIEVE, TASK_RETRIEVE

from tasks.celery_internals.message_template import rendered_by_celery


def test_the_message_is_the_one_that_celery_sends() -> None:
    ours = json.loads(retrieve_message("bread"))
    app, task_id = Celery("caller", set_as_current=False), ours["headers"]["id"]
    kwargs = {"request_id": "bread"}
    theirs = rendered_by_celery(app, TASK_RETRIEVE, QUEUE_RETRIEVE, kwargs=kwargs, task_id=task_id)
    del theirs["properties"]["reply_to"]  # where a result would be sent
    for message in (ours, theirs):
        del message["properties"]["delivery_tag"]
        message["body"] = json.loads(b64decode(message["body"]))
    assert ours == theirs


def test_each_message_has_ids_of_its_own() -> None:
    first, second = (json.loads(retrieve_message("bread")) for _ in range(2))
    assert first["headers"]["id"] != second["headers"]["id"]
    assert first["properties"]["delivery_tag"] != second["properties"]["delivery_tag"]
