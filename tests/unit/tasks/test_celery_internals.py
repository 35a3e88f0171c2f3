"""The worker's loop, what it has popped, and the ids of parts: what is changed in Celery and kombu."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from celery.exceptions import TaskRevokedError
from kombu.asynchronous import Hub
from redis.exceptions import ConnectionError

from ledger.protocol import QueueMessage
from tasks.celery_internals.batch_consumer import BatchConsumer
from tasks.celery_internals.consuming import AMQP, ROUNDS, Connection, Consumer, Transport
from tasks.celery_internals.result_backend import _while_redis_returns, failed_part, part_id

QUEUE, TASK = "chorale.bm25", "chorale.search.bm25"


def test_messages_for_celery_are_put_back_when_celery_loses_its_connection() -> None:
    first, second = ({"headers": {"task": TASK, "id": str(number)}, "body": ""} for number in range(2))
    put_back: list[Any] = []
    ledger: Any = SimpleNamespace(
        take=lambda **_: [
            QueueMessage(QUEUE, b"", True),
            QueueMessage(QUEUE, json.dumps(second).encode(), True),
        ]
    )
    redis: Any = SimpleNamespace(rpush=lambda queue, message: put_back.append((queue, json.loads(message))))
    app: Any = SimpleNamespace(tasks={TASK: SimpleNamespace(name=TASK)})
    consumer = BatchConsumer(app, ledger, redis, [TASK], {QUEUE: 16}, False, lambda *_: None)

    def deliver(*_: object) -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        consumer.take(first, QUEUE, deliver)
    assert put_back == [(QUEUE, first), (QUEUE, second)]


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


@pytest.mark.parametrize(("attempt", "task_id"), [(1, "r-1:bm25"), (2, "r-1:bm25:2")])
def test_a_parts_id_says_its_request_its_branch_and_its_attempt(attempt: int, task_id: str) -> None:
    assert part_id("r-1", "bm25", attempt) == task_id
    branch_result = failed_part(task_id, KeyError("nothing"))
    assert (branch_result.branch, branch_result.attempt, branch_result.reason) == ("bm25", attempt, "error")


def test_a_revoked_part_is_a_cancelled_branch() -> None:
    assert failed_part("r-1:bm25", TaskRevokedError("expired")).reason == "cancelled"


@pytest.mark.parametrize("task_id", ["r-1:bm25:", "r-1:bm25:x", "r-1:bm25:2:3"])
def test_an_odd_task_id_is_read_without_an_error(task_id: str) -> None:
    assert failed_part(task_id, KeyError()).branch == "bm25"


def test_a_report_that_redis_refuses_is_made_again_when_redis_is_back() -> None:
    is_back = iter([False, True])

    def report() -> str:
        if not next(is_back):
            raise ConnectionError("refused")
        return "counted"

    assert _while_redis_returns(report) == "counted"
