"""The contract with Celery's wire: the messages that one script pushes are those that `celery.chord` sends for the same request."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any, cast

import pytest
import redis
from celery import Celery
from chorale_client import make_request
from chorale_client.keys import GENERATION
from chorale_client.wire_names import QUEUE_FUSION, TASK_FUSE

from config.celery import celery_settings
from config.settings import Settings
from ledger.redis import RedisLedger
from tasks.celery_internals.message_template import Template
from tasks.registration import make_app
from tasks.request.fanout import Fanout, check
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
    messages = [
        json.loads(raw) for queue in QUEUES for raw in cast("list[bytes]", client.lrange(queue, 0, -1))
    ]
    for message in messages:
        message["body"] = json.loads(b64decode(message["body"]))
    return messages


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


@pytest.fixture
def app(redis_client: redis.Redis) -> Celery:
    made = Celery("tests", set_as_current=False)
    path = redis_client.connection_pool.connection_kwargs["path"]
    made.conf.update(
        celery_settings(
            Settings(), redis_url=f"unix://{path}?db=0", queues=[QUEUE_FUSION], acknowledged=False
        )
    )
    return made


def test_a_plain_chord_is_used_if_rendered_messages_differ_from_celerys_or_go_to_another_redis(
    app: Celery, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_lean(**options: bool) -> bool:
        return Fanout(app, RedisLedger(redis_client), resend_after_s=1, **options).is_lean

    assert (is_lean(), is_lean(lean=False)) == (True, False)
    render = Template.render
    with monkeypatch.context() as patch:
        patch.setattr(
            Template,
            "render",
            lambda *args, **named: render(*args, **named).replace(b'"retries"', b'"tries"'),
        )
        assert "headers" in (check(app, TASK_FUSE, QUEUE_FUSION) or "")
        assert not is_lean()
    app.conf.broker_url = "redis://127.0.0.1:1/0"
    assert not is_lean()


@pytest.mark.parametrize("digit", range(6))
def test_ids_and_texts_are_carried_as_they_are_even_those_that_look_like_places(
    app: Celery, digit: int
) -> None:
    template = Template(app, TASK_FUSE, QUEUE_FUSION)
    ids = [f"00000000-0000-4000-8000-00000000000{(digit + place) % 6}" for place in range(4)]
    kwargs = {"request_id": ids[0], "text": '"tag" body "task_id"'}
    message = json.loads(template.render(ids[0], kwargs, root_id=ids[1], parent_id=ids[2], group_id=ids[3]))
    headers = [message["headers"][name] for name in ("id", "root_id", "parent_id", "group")]
    assert [*headers, message["properties"]["correlation_id"]] == [*ids, ids[0]]
    assert json.loads(b64decode(message["body"]))[1] == kwargs
