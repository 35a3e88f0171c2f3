"""The contract with Celery's wire: a message rendered ahead of time is the one that Celery would send."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any, cast

import pytest
from celery import Celery
from chorale_client.message_template import Template
from chorale_client.wire_names import QUEUE_FUSION, TASK_FUSE
from redis import Redis

from config.celery import celery_settings
from config.settings import Settings
from ledger.redis import RedisLedger
from tasks.request.fanout import Fanout, check


@pytest.fixture
def app(redis_client: Redis) -> Celery:
    made = Celery("tests", set_as_current=False)
    path = redis_client.connection_pool.connection_kwargs["path"]
    made.conf.update(
        celery_settings(
            Settings(), redis_url=f"unix://{path}?db=0", queues=[QUEUE_FUSION], acknowledged=False
        )
    )
    return made


def test_celery_puts_the_same_message_on_the_list_as_we_do(app: Celery, redis_client: Redis) -> None:
    kwargs = {"request_id": "a-request"}
    app.send_task(
        TASK_FUSE, (), kwargs, queue=QUEUE_FUSION, task_id="a-request", root_id="a-request", ignore_result=True,
        argsrepr="()", kwargsrepr="{}",
    )  # fmt: skip
    theirs = json.loads(cast(bytes, redis_client.rpop(QUEUE_FUSION)))
    template = Template(app, TASK_FUSE, QUEUE_FUSION)
    ours = [json.loads(template.render("a-request", kwargs, root_id="a-request")) for _ in range(10)]
    tags = {message["properties"].pop("delivery_tag") for message in (theirs, *ours)}
    assert len(tags) == 11, "no two messages have one"
    for message in (theirs, *ours):
        message["body"] = json.loads(b64decode(message["body"]))
    assert ours == [theirs] * 10


def test_the_body_names_the_chord_of_a_part(app: Celery) -> None:
    ids: dict[str, Any] = {"root_id": "r", "parent_id": "r", "group_id": "r"}
    template = Template(app, TASK_FUSE, QUEUE_FUSION)
    message = json.loads(template.render("r:bm25", {"branch": "bm25"}, chord={"task": TASK_FUSE}, **ids))
    args, kwargs, embedded = json.loads(b64decode(message["body"]))
    assert (args, kwargs) == ([], {"branch": "bm25"})
    assert embedded == {"callbacks": None, "errbacks": None, "chain": None, "chord": {"task": TASK_FUSE}}
    headers = [message["headers"][name] for name in ("id", "root_id", "parent_id", "group")]
    assert headers == ["r:bm25", "r", "r", "r"]


def test_a_plain_chord_is_used_if_rendered_messages_differ_from_celerys_or_go_to_another_redis(
    app: Celery, redis_client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_lean(**options: bool) -> bool:
        return Fanout(app, RedisLedger(redis_client), resend_after_s=1, **options).is_lean

    assert (is_lean(), is_lean(lean=False)) == (True, False)
    render = Template.render
    with monkeypatch.context() as patch:
        patch.setattr(
            Template,
            "render",
            lambda *args, **given: render(*args, **given).replace(b'"retries"', b'"tries"'),
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
