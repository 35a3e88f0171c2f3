"""The messages that one script pushes are those that `celery.chord` sends for the same request."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any, cast

import pytest
import redis
from chorale_client import make_request
from chorale_client.keys import GENERATION

from config.settings import Settings
from tasks.registration import make_app
from tasks.request.retrieve import submit
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.support.servers.redis_server import RedisServer

REQUEST_ID = "11111111-2222-4333-8444-555555555555"
QUEUES = ("chorale.bm25", "chorale.vector", "chorale.hyde")


def messages(server: RedisServer, client: redis.Redis, home: Path, *, lean: bool) -> list[dict[str, Any]]:
    """What waits on the queues of the branches after a request."""
    client.flushall()
    client.set(GENERATION + "default", 7)
    resources = Resources(Settings(home=home, embedder="none", lean=lean), load_pipeline(), server.url)
    resources.generations.agreed["default"] = 7
    fanout = make_app(resources).fanout
    assert fanout.is_lean == lean
    submit(resources, fanout, make_request("bread", timeout_s=60, request_id=REQUEST_ID))
    found = [json.loads(raw) for queue in QUEUES for raw in cast("list[bytes]", client.lrange(queue, 0, -1))]
    for message in found:
        message["body"] = json.loads(b64decode(message["body"]))
    return found


def test_a_chord_that_a_script_publishes_has_the_messages_of_celerys_chord(
    redis_server: RedisServer, redis_client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Resources, "fingerprints", {"embedder": "none"})
    ours = messages(redis_server, redis_client, tmp_path, lean=True)
    celerys = messages(redis_server, redis_client, tmp_path, lean=False)
    for message in celerys:
        # Celery draws an id for each group and names its own reply queue; Chorale's group has the id of the request.
        callback, headers = message["body"][2]["chord"], message["headers"]
        assert callback["options"].pop("group_id") == headers["group"]
        assert callback["options"].pop("reply_to") == message["properties"]["reply_to"]
        headers["group"] = REQUEST_ID
        # Chorale's messages do not repeat the arguments.
        headers.update(argsrepr="()", kwargsrepr="{}")
    for message in (*ours, *celerys):
        for drawn in ("delivery_tag", "reply_to", "argsrepr", "kwargsrepr"):
            message["properties"].pop(drawn, None)
    assert ours == celerys
    assert [message["body"][2]["chord"] for message in ours] == [
        {
            "task": "chorale.fuse",
            "args": [],
            "kwargs": {"request_id": REQUEST_ID},
            "options": {"queue": "chorale.fusion", "task_id": REQUEST_ID, "root_id": REQUEST_ID},
            "subtask_type": None,
            "immutable": True,
        }
    ] * 3
