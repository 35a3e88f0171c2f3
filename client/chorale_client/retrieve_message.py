"""The message of `chorale.retrieve` on a Redis list, which the script that accepts a request pushes.

It is what Celery sends: its documented task protocol 2, in the JSON document that kombu's virtual transports exchange and that
workers of other versions read too.  It is written here, since Celery takes longer to import than all else that a caller needs.
"""

from __future__ import annotations

import os
import socket
from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from pydantic_core import to_json

from chorale_client.wire_names import QUEUE_RETRIEVE, TASK_RETRIEVE

_NO_ARGUMENTS = {"argsrepr": "()", "kwargsrepr": "{}"}
WITHOUT_ARGUMENTS: Mapping[str, Any] = {"ignore_result": True, **_NO_ARGUMENTS}
"""Celery repeats the arguments in the headers, for logs and Flower.  They are left out, since they contain texts."""
_NO_CALLBACKS: dict[str, None] = dict.fromkeys(("callbacks", "errbacks", "chain", "chord"))


def retrieve_message(request_id: str) -> bytes:
    """The message with a new task id.  The list has the queue's name."""
    task_id = str(uuid4())
    headers: dict[str, Any] = {
        "lang": "py",
        "task": TASK_RETRIEVE,
        "id": task_id,
        "root_id": task_id,
        "parent_id": None,
        "group": None,
        "group_index": None,
        "shadow": None,
        "eta": None,
        "expires": None,
        "retries": 0,
        "timelimit": [None, None],
        "origin": f"gen{os.getpid()}@{socket.gethostname()}",
        "replaced_task_nesting": 0,
        "stamped_headers": None,
        "stamps": {},
        **WITHOUT_ARGUMENTS,
    }
    properties = {
        "correlation_id": task_id,
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": QUEUE_RETRIEVE},
        "delivery_tag": str(uuid4()),
        "priority": 0,
        "body_encoding": "base64",
        **_NO_ARGUMENTS,
    }
    body = b64encode(to_json([[], {"request_id": request_id}, _NO_CALLBACKS])).decode()
    return to_json(
        {
            "body": body,
            "content-type": "application/json",
            "content-encoding": "utf-8",
            "headers": headers,
            "properties": properties,
        }
    )
