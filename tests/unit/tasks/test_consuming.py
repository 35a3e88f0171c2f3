"""The worker's loop with RabbitMQ: nothing that is ready waits for the network."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from kombu.asynchronous import Hub

from tasks.celery_surface.consuming import AMQP, ROUNDS, Connection, Consumer, Transport


def consumer_of(hub: Hub) -> Consumer:
    return cast(Consumer, SimpleNamespace(hub=hub))


def test_what_becomes_ready_meanwhile_runs_before_the_loop_waits() -> None:
    hub, ran = Hub(), []

    def read() -> None:
        ran.append("read")
        hub.call_soon(acknowledge)

    def acknowledge() -> None:
        ran.append("acknowledge")

    hub.call_soon(read)
    Consumer.finish_ready(consumer_of(hub))

    assert ran == ["read", "acknowledge"]


def test_what_makes_itself_ready_for_ever_keeps_no_timer_waiting_for_ever() -> None:
    hub, ran = Hub(), []

    def again() -> None:
        ran.append(1)
        hub.call_soon(again)

    hub.call_soon(again)
    Consumer.finish_ready(consumer_of(hub))

    assert len(ran) == ROUNDS


def test_only_redis_gets_another_transport() -> None:
    connect: Any = Connection
    classes = {
        url: connect(url).get_transport_cls()
        for url in ("redis://nowhere", "redis+socket:///nowhere", "amqp://nowhere", "memory://")
    }
    assert classes["redis://nowhere"] is classes["redis+socket:///nowhere"] is Transport
    assert Transport not in (classes["amqp://nowhere"], classes["memory://"])
    assert AMQP.Connection is Connection
