"""What a worker does with the messages that it finds between two slices of a costly part."""

from __future__ import annotations

import json
from base64 import b64encode
from types import SimpleNamespace
from typing import Any

import pytest
from celery.worker import state
from redis.exceptions import ConnectionError

from ledger.protocol import Started, Taken
from tasks.celery_internals import batch_consumer
from tasks.celery_internals.batch_consumer import BatchConsumer
from tasks.celery_internals.result_backend import part_id

QUEUE, TASK = "chorale.bm25", "chorale.search.bm25"
PLAN, COSTLY_PLAN = b'{"branches":[]}', b'{"cost":"costly","branches":[]}'


class Queues:
    """The queues in Redis, and the ledger that takes everything from them.  Parts whose request is `costly` have a costly plan."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.waiting = [json.dumps(one).encode() for one in messages]

    def take(self, *, first: tuple[str, str, str], most: dict[str, int]) -> list[Taken]:
        assert (first, most) == (("", "", ""), {QUEUE: 16})
        taken = [Taken("", b"", False), *map(self.started, self.waiting)]
        self.waiting = []
        return taken

    def started(self, message: bytes) -> Taken:
        if b"chorale.search" not in message:
            return Taken(QUEUE, message, False)
        plan = COSTLY_PLAN if b"costly" in message else PLAN
        return Taken(QUEUE, message, True, Started(1_000, b"{}", plan, 0, 0))

    def lpush(self, queue: str, message: str) -> None:
        assert queue == QUEUE
        self.waiting.insert(0, message.encode())


def part(request_id: str) -> dict[str, Any]:
    arguments = {"request_id": request_id, "branch": "bm25"}
    return {
        "headers": {"task": TASK, "id": part_id(request_id, "bm25", 1)},
        "body": b64encode(json.dumps([[], arguments, {}]).encode()).decode(),
    }


def served(queues: Any) -> list[str]:
    """The requests whose parts are answered."""
    found: list[str] = []

    def run(parts: Any, _joined: object, _joined_s: float) -> None:
        found.extend(one.arguments["request_id"] for one in parts)

    app: Any = SimpleNamespace(tasks={TASK: SimpleNamespace(name=TASK)})
    BatchConsumer(app, queues, queues, [TASK], {QUEUE: 16}, run).take_more()
    return found


def test_parts_of_others_are_answered_and_everything_else_goes_to_the_end_of_its_queue() -> None:
    celerys = {"headers": {"task": "another.task", "id": "7"}, "body": ""}
    queues = Queues(celerys, part("costly"), part("usual"))
    assert served(queues) == ["usual"]
    # The right end is the first.
    assert [json.loads(one) for one in queues.waiting] == [part("costly"), celerys]


def test_a_worker_that_is_told_to_stop_takes_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "should_stop", 0)
    queues = Queues(part("usual"))
    assert served(queues) == []
    assert len(queues.waiting) == 1


class LosesItsConnection(Queues):
    """Redis is away at the first push."""

    pushes = 0

    def lpush(self, queue: str, message: str) -> None:
        self.pushes += 1
        if self.pushes == 1:
            raise ConnectionError
        super().lpush(queue, message)


def test_messages_that_were_popped_are_put_back_when_redis_is_there_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch_consumer, "PAUSE_S", 0.0)
    queues = LosesItsConnection(part("costly"), part("usual"))
    assert served(queues) == ["usual"]
    assert [json.loads(one) for one in queues.waiting] == [part("costly")]


def test_messages_for_celery_are_put_back_when_celery_loses_its_connection() -> None:
    first, second = ({"headers": {"task": TASK, "id": str(number)}, "body": ""} for number in range(2))
    put_back: list[Any] = []
    ledger: Any = SimpleNamespace(
        take=lambda **_: [Taken(QUEUE, b"", True), Taken(QUEUE, json.dumps(second).encode(), True)]
    )
    redis: Any = SimpleNamespace(rpush=lambda queue, message: put_back.append((queue, json.loads(message))))
    app: Any = SimpleNamespace(tasks={TASK: SimpleNamespace(name=TASK)})
    consumer = BatchConsumer(app, ledger, redis, [TASK], {QUEUE: 16}, lambda *_: None)

    def deliver(*_: object) -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        consumer.take(first, QUEUE, deliver)
    assert put_back == [(QUEUE, first), (QUEUE, second)]
