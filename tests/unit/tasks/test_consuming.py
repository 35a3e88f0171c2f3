"""The worker's event loop with RabbitMQ: ready callbacks do not wait for the network."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from kombu.asynchronous import Hub

from tasks.celery_internals.consuming import AMQP, ROUNDS, Connection, Consumer, Transport


def finish_ready(hub: Hub) -> None:
    Consumer.finish_ready(cast(Consumer, SimpleNamespace(hub=hub)))


def test_callbacks_that_become_ready_run_before_the_loop_waits() -> None:
    hub, ran = Hub(), []

    def read() -> None:
        ran.append("read")
        hub.call_soon(acknowledge)

    def acknowledge() -> None:
        ran.append("acknowledge")

    hub.call_soon(read)
    finish_ready(hub)
    assert ran == ["read", "acknowledge"]


def test_a_callback_that_schedules_itself_for_ever_does_not_block_timers() -> None:
    hub, ran = Hub(), []

    def again() -> None:
        ran.append(1)
        hub.call_soon(again)

    hub.call_soon(again)
    finish_ready(hub)
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
