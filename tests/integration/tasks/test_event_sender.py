"""Events for Flower through both brokers, and without a broker; and what Celery's own programs make of them."""

from __future__ import annotations

import io
import json
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from celery import Celery
from celery.events.dumper import Dumper
from celery.events.state import State
from chorale_client.connections.urls import celery_url
from chorale_client.wire_names import Status
from pydantic_core import to_json

from tasks.celery_internals.event_sender import Event, EventSender, heartbeat
from tasks.jobs.job_events import events_of
from tasks.sweeping.request_events import events_of_ended, events_of_running
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.services import need
from tests.support.waiting import until
from tests.unit.tasks.test_job_events import JOB
from tests.unit.tasks.test_job_events import ended as ended_job
from tests.unit.tasks.test_request_events import ACCEPTED_MS, BRANCH_RESULT, ended

EVENTS = [("task-received", {"uuid": "r", "name": "chorale.retrieve"}), ("task-degraded", {"uuid": "r"})]

TEXT = "Who pays for repairs?"
ENTRY = {
    "state": "planned",
    "accepted_at": str(ACCEPTED_MS),
    "request": to_json({"namespace": "docs", "questions": [{"text": TEXT}]}).decode(),
    "plan": to_json({"branches": [{"name": "bm25", "kind": "bm25", "queue": "chorale.bm25"}]}).decode(),
}
EVERY_EVENT: list[Event] = [
    heartbeat(active=1, processed=2),
    *events_of_running("r", ENTRY, before=None, with_texts=False),
    *events_of_running("r", ENTRY, before=ENTRY, with_texts=False),
    *(
        event
        for status in Status
        for event in events_of_ended(
            ended(status, branch_results={"bm25": {**BRANCH_RESULT, "worker": "bm25@host"}}), with_texts=False
        )
    ),
    *events_of_ended(ended("failed", branch_results={}), with_texts=False),
    *events_of(JOB, None),
    *(event for outcome in ("completed", "failed") for event in events_of(ended_job(outcome), "running")),
]
"""At least one event of each kind that the product sends while it runs."""

DOCUMENTED = {
    "task-sent": "uuid name args kwargs retries eta expires queue exchange routing_key root_id parent_id",
    "task-received": "uuid name args kwargs retries eta hostname timestamp root_id parent_id",
    "task-started": "uuid hostname timestamp pid",
    "task-succeeded": "uuid result runtime hostname timestamp",
    "task-failed": "uuid exception traceback hostname timestamp",
    "task-rejected": "uuid requeue",
    "task-revoked": "uuid terminated signum expired",
    "worker-heartbeat": "hostname timestamp freq sw_ident sw_ver sw_sys active processed",
    "worker-offline": "hostname timestamp freq sw_ident sw_ver sw_sys",
}
"""The fields of each event in Celery's documentation ("Event Reference")."""
OURS = {"task-degraded", "task-progress"}


def app_of(url: str) -> Celery:
    app = Celery("events", broker=celery_url(url), set_as_current=False)
    app.conf.broker_transport_options = {"socket_connect_timeout": 20, "socket_timeout": 20}
    return app


@contextmanager
def heard(app: Celery) -> Iterator[list[dict[str, Any]]]:
    """What a listener such as Flower hears within the block."""
    events: list[dict[str, Any]] = []
    with app.connection() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": events.append})
        listener = threading.Thread(target=receiver.capture, kwargs={"limit": None, "wakeup": False})
        listener.start()
        try:
            yield events
        finally:
            receiver.should_stop = True
            listener.join()


def wait_until_heard(sender: EventSender, events: list[dict[str, Any]]) -> None:
    """Sends heartbeats until the listener listens."""

    def is_heard() -> bool:
        sender.send([heartbeat(active=1, processed=2)])
        return bool(events)

    until(is_heard)


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_a_listener_hears_every_event_in_order(broker: str, request: pytest.FixtureRequest) -> None:
    if broker == "redis":
        url = request.getfixturevalue("own_redis_server").url
    else:
        url = need("rabbitmq", "Flower's events through it are not tested")
    app = app_of(url)
    # Other tests send events through the same RabbitMQ, too.
    sender = EventSender(app, "of-this-test")
    with heard(app) as events:
        wait_until_heard(sender, events)
        sender.send(EVENTS)
        sender.close()

        def own() -> list[str]:
            return [one["type"] for one in events if one["hostname"].startswith("of-this-test@")]

        until(lambda: own()[-1:] == ["worker-offline"])
    assert own()[-3:] == ["task-received", "task-degraded", "worker-offline"]


def test_while_the_broker_is_away_events_are_lost_and_nobody_waits(own_redis_server: RedisServer) -> None:
    app = app_of(own_redis_server.url)
    sender = EventSender(app, "sweeper")
    sender.send(EVENTS)
    own_redis_server.stop()
    sender.send(EVENTS)
    own_redis_server.start()
    with heard(app) as events:
        wait_until_heard(sender, events)
    assert {one["type"] for one in events} == {"worker-heartbeat"}
    sender.close()


def test_only_events_of_tasks_share_a_message(own_redis_server: RedisServer) -> None:
    """Other Celery workers read each event of a worker as one object, whose routing key is its type."""
    sender = EventSender(app_of(own_redis_server.url), "sweeper")
    with own_redis_server.client() as client, client.pubsub(ignore_subscribe_messages=True) as channel:
        channel.psubscribe("/0.celeryev/*")
        channel.get_message(timeout=5)
        sender.send([*EVENTS, heartbeat(active=1, processed=2), heartbeat(active=2, processed=3)])
        sender.close()
        bodies: list[tuple[str, Any]] = []
        while not bodies or bodies[-1][0] != "worker.offline":
            received: Any = channel.get_message(timeout=5)
            message = json.loads(received["data"])
            key = message["properties"]["delivery_info"]["routing_key"]
            bodies.append((key, json.loads(b64decode(message["body"]))))
    keys = ["worker.heartbeat", "worker.heartbeat", "task.multi", "worker.offline"]
    assert [key for key, _ in bodies] == keys
    assert [len(body) for key, body in bodies if key == "task.multi"] == [len(EVENTS)]
    assert {body["hostname"].split("@")[0] for key, body in bodies if key != "task.multi"} == {"sweeper"}


def test_every_event_has_the_fields_that_celery_documents_and_no_text(own_redis_server: RedisServer) -> None:
    app = app_of(own_redis_server.url)
    sender = EventSender(app, "sweeper")
    with heard(app) as events:
        wait_until_heard(sender, events)
        sender.send(EVERY_EVENT)
        sender.close()
        until(lambda: events[-1]["type"] == "worker-offline")
    assert {event["type"] for event in events} == DOCUMENTED.keys() | OURS
    for event in events:
        fields = set(DOCUMENTED.get(event["type"], "uuid hostname timestamp").split())
        assert not fields - event.keys(), event
    assert TEXT not in str(events)

    # What `celery events`, Flower and the exporters for Prometheus make of them.
    state, out = State(), io.StringIO()
    for event in events:
        state.event(dict(event))
        Dumper(out).on_event(dict(event))
    assert {task.name for task in state.tasks.values()} == {
        "chorale.retrieve",
        "chorale.search.bm25",
        "chorale.job",
    }
    assert out.getvalue().count("\n") == len(events)
    for task in state.tasks.values():
        assert isinstance(task.traceback, str) or task.state != "FAILURE"
