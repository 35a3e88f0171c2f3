"""Unreadable messages on a queue are dropped and logged, and the worker goes on with the next message."""

from __future__ import annotations

import json
import uuid
from base64 import b64encode
from typing import Any

import pytest
from chorale_client.wire_names import TASK_SEARCH

from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until

QUEUE = "chorale.bm25"
TASK = TASK_SEARCH.format(kind="bm25")
PART = {"request_id": "nobody-knows-it", "branch": "bm25"}
DEEP_JSON = b"[" * 10_000 + b"]" * 10_000


def message(body: bytes, headers: object = (), **changes: Any) -> bytes:
    """Returns a message of the queue's task in kombu's form for a Redis list; a header that is None is left out."""
    usual = {"lang": "py", "task": TASK, "id": "nobody-knows-it", "root_id": "nobody-knows-it", "retries": 0}
    if isinstance(headers, dict):
        headers = {name: value for name, value in {**usual, **headers}.items() if value is not None}
    document = {
        "body": b64encode(body).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": headers or usual,
        "properties": {
            "delivery_info": {"exchange": "", "routing_key": QUEUE},
            "body_encoding": "base64",
            "delivery_tag": str(uuid.uuid4()),
        },
    }
    return json.dumps({**document, **changes}).encode()


def body(kwargs: dict[str, Any], **embedded: Any) -> bytes:
    return json.dumps([[], kwargs, embedded]).encode()


MESSAGES: dict[str, bytes] = {
    "no JSON": b"hello",
    "nothing": b"",
    "pickle": b"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x01a\x94.",
    "a JSON text": b'"hello"',
    "a JSON list": b"[1]",
    "a JSON null": b"null",
    "an empty object": b"{}",
    "JSON 10,000 levels deep": DEEP_JSON,
    "a body 10,000 levels deep": message(DEEP_JSON),
    "a body that is pickle": message(b"\x80\x04.", **{"content-type": "application/x-python-serialize"}),
    "a body that is no base64": message(b"").replace(b'"body": ""', b'"body": "@@@"'),
    "a body of another shape": message(b'{"a": 1}'),
    "a body of 10 MB": message(body({**PART, "branch": "x" * 10_000_000})),
    "wrong arguments": message(body({"foo": 1})),
    "arguments of other types": message(body({"request_id": 5, "branch": {}})),
    "a foreign task": message(body({}), {"task": "accounts.tasks.send_invoice"}),
    "a task that is a list": message(body({}), {"task": ["a"]}),
    "a foreign task whose id is an object": message(body({}), {"task": "x", "id": {"a": 1}}),
    "no id": message(body(PART), {"id": None}),
    "no task": message(body(PART), {"task": None}),
    "headers that are a list": message(body(PART), [1]),
    "no properties": message(body(PART), properties={}),
    "a time limit that is none": message(body(PART), {"timelimit": "soon"}),
    "a moment that is none": message(body(PART), {"eta": "yesterday"}),
    "a moment in a thousand years": message(body(PART), {"eta": "3026-01-01T00:00:00"}),
    "an end that is none": message(body(PART), {"expires": "yesterday"}),
    "callbacks that are none": message(body(PART, chord="x", errbacks=5)),
}


@pytest.mark.parametrize("sent", MESSAGES.values(), ids=MESSAGES)
def test_a_message_that_nobody_can_read_costs_nothing_else(faulty: RunningPipeline, sent: bytes) -> None:
    worker, waiting = faulty.processes[QUEUE], waiting_connections(faulty)
    faulty.redis.lpush(QUEUE, sent)

    answer = faulty.client().retrieve("ERR-4711", branches=["bm25"], cache="bypass", timeout_s=20)

    assert (answer.status, answer.hits[0].document_id) == ("complete", "error")
    assert worker.poll() is None
    # No worker has given up its connection to the broker.
    until(lambda: waiting_connections(faulty) >= waiting)
    assert sent not in faulty.redis.lrange(QUEUE, 0, -1), "it came back to its queue"


def waiting_connections(pipeline: RunningPipeline) -> set[str]:
    """Returns the connections on which workers wait for messages."""
    clients: Any = pipeline.redis.client_list()
    return {client["id"] for client in clients if client["cmd"] == "brpop"}
