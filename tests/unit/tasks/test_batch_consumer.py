"""What a worker does with the messages that it has popped."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from redis.exceptions import ConnectionError

from ledger.protocol import Taken
from tasks.celery_internals.batch_consumer import BatchConsumer

QUEUE, TASK = "chorale.bm25", "chorale.search.bm25"


def test_messages_for_celery_are_put_back_when_celery_loses_its_connection() -> None:
    first, second = ({"headers": {"task": TASK, "id": str(number)}, "body": ""} for number in range(2))
    put_back: list[Any] = []
    ledger: Any = SimpleNamespace(
        take=lambda **_: [Taken(QUEUE, b"", True), Taken(QUEUE, json.dumps(second).encode(), True)]
    )
    redis: Any = SimpleNamespace(rpush=lambda queue, message: put_back.append((queue, json.loads(message))))
    app: Any = SimpleNamespace(tasks={TASK: SimpleNamespace(name=TASK)})
    consumer = BatchConsumer(app, ledger, redis, [TASK], {QUEUE: 16}, False, lambda *_: None)

    def deliver(*_: object) -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        consumer.take(first, QUEUE, deliver)
    assert put_back == [(QUEUE, first), (QUEUE, second)]
