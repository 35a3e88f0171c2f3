"""Events for Flower through both brokers, and without a broker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from celery import Celery
from chorale_client.redis_urls import celery_url

from tasks.celery_internals.event_sender import EventSender, heartbeat
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.services import need
from tests.support.waiting import until

EVENTS = [("task-received", {"uuid": "r", "name": "chorale.retrieve"}), ("task-degraded", {"uuid": "r"})]


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
