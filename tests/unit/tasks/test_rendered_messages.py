"""The contract with Celery's wire: a message rendered ahead of time is the one that Celery would send."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import cast

import pytest
from celery import Celery
from chorale_client.message_template import Template
from chorale_client.words import QUEUE_FUSION, TASK_FUSE
from redis import Redis

from config.celery import celery_settings
from ledger.redis import RedisLedger
from tasks.celery_surface.rendered_messages import check
from tasks.request.fanout import Fanout


@pytest.fixture
def app(redis_client: Redis) -> Celery:
    made = Celery("tests", set_as_current=False)
    path = redis_client.connection_pool.connection_kwargs["path"]
    made.conf.update(
        celery_settings(
            redis_url=f"unix://{path}?db=0",
            broker_url=None,
            queues=[QUEUE_FUSION],
            acknowledged=False,
            task_events=False,
            remote_control=False,
            soft_shutdown_s=8,
            redis_socket_timeout_s=5,
            redis_connect_timeout_s=2,
        )
    )
    return made


def test_a_rendered_message_is_field_by_field_what_celery_sends(app: Celery) -> None:
    assert check(app, TASK_FUSE, QUEUE_FUSION) is None


def test_celery_puts_the_same_message_on_the_list_as_we_do(app: Celery, redis_client: Redis) -> None:
    kwargs = {"request_id": "a-request"}
    app.send_task(
        TASK_FUSE, (), kwargs, queue=QUEUE_FUSION, task_id="a-request", root_id="a-request", ignore_result=True,
        argsrepr="()", kwargsrepr="{}",
    )  # fmt: skip
    theirs = json.loads(cast(bytes, redis_client.rpop(QUEUE_FUSION)))
    ours = json.loads(Template(app, TASK_FUSE, QUEUE_FUSION).render("a-request", kwargs, root_id="a-request"))
    for message in (theirs, ours):
        del message["properties"]["delivery_tag"]
        message["body"] = json.loads(b64decode(message["body"]))
    assert ours == theirs


def test_the_body_names_the_chord_of_a_part(app: Celery) -> None:
    rendered = Template(app, TASK_FUSE, QUEUE_FUSION).render(
        "r:bm25", {"branch": "bm25"}, root_id="r", parent_id="r", group_id="r", chord={"task": TASK_FUSE}
    )
    message = json.loads(rendered)
    args, kwargs, embedded = json.loads(b64decode(message["body"]))
    assert (args, kwargs) == ([], {"branch": "bm25"})
    assert embedded == {"callbacks": None, "errbacks": None, "chain": None, "chord": {"task": TASK_FUSE}}
    assert {name: message["headers"][name] for name in ("id", "root_id", "parent_id", "group")} == {
        "id": "r:bm25",
        "root_id": "r",
        "parent_id": "r",
        "group": "r",
    }


def test_no_two_messages_have_one_delivery_tag(app: Celery) -> None:
    template = Template(app, TASK_FUSE, QUEUE_FUSION)
    tags = {
        json.loads(template.render("r", {}, root_id="r"))["properties"]["delivery_tag"] for _ in range(10)
    }
    assert len(tags) == 10


def test_a_plain_chord_is_used_if_rendered_messages_differ_from_celerys(
    app: Celery, redis_client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = RedisLedger(redis_client)
    assert Fanout(app, ledger, resend_after_s=1).is_lean
    assert not Fanout(app, ledger, resend_after_s=1, lean=False).is_lean

    render = Template.render
    monkeypatch.setattr(
        Template,
        "render",
        lambda *args, **options: render(*args, **options).replace(b'"retries"', b'"tries"'),
    )
    assert "headers" in (check(app, TASK_FUSE, QUEUE_FUSION) or "")
    assert not Fanout(app, ledger, resend_after_s=1).is_lean


def test_a_plain_chord_is_used_if_the_broker_is_not_the_ledgers_redis(
    app: Celery, redis_client: Redis
) -> None:
    app.conf.broker_url = "redis://127.0.0.1:1/0"
    assert not Fanout(app, RedisLedger(redis_client), resend_after_s=1).is_lean
