"""Which message an index worker does next: namespaces take turns."""

from __future__ import annotations

import math
from collections import deque

from tasks.indexing.message_order import TURN_ALONE_S, TURN_S, TurnOver, Turns

PASS_S = 0.01


class Worker:
    """A queue of messages `namespace number seconds`, and the messages in the order of their ends."""

    def __init__(self, *messages: str) -> None:
        self.now_s = 0.0
        self.queue = deque(messages)
        self.remaining_s = {message: float(message.split()[2]) for message in messages}
        self.ended: list[str] = []
        self.passed = 0
        self.turns = Turns(self.turn_s, clock=lambda: self.now_s)

    def turn_s(self, namespace: str) -> float:
        if not self.queue:
            return math.inf
        is_alone = all(message.split()[0] == namespace for message in self.queue)
        return TURN_ALONE_S if is_alone else TURN_S

    def add(self, message: str) -> None:
        self.queue.append(message)
        self.remaining_s[message] = float(message.split()[2])

    def step(self) -> None:
        """Take one message, and work on it until it ends or its turn is over; its work has steps of .1 s."""
        message = self.queue.popleft()
        namespace = message.split()[0]
        if not self.turns.is_on(namespace, message):
            self.passed += 1
            with self.turns.putting_back():
                self.now_s += PASS_S
                self.queue.append(message)
            return
        try:
            with self.turns.working(namespace, message):
                while self.remaining_s[message] > 0.01:
                    self.now_s += 0.1
                    self.remaining_s[message] -= 0.1
                    if self.remaining_s[message] > 0.01 and self.turns.is_over(namespace):
                        raise TurnOver
                self.ended.append(message)
        except TurnOver:
            self.queue.append(message)

    def run(self) -> list[str]:
        while self.queue:
            self.step()
        return self.ended


def test_a_heavy_message_lets_the_message_of_another_namespace_come_first() -> None:
    worker = Worker("heavy 1 60", "light 1 0.2")
    assert worker.run() == ["light 1 0.2", "heavy 1 60"]
    assert worker.now_s < 60.5 + TURN_S


def test_a_backlog_lets_a_later_namespace_come_after_one_turn() -> None:
    worker = Worker(*(f"many {number} 0.5" for number in range(100)))
    worker.step()
    worker.add("light 1 0.2")
    while "light 1 0.2" not in worker.ended:
        worker.step()
    assert len(worker.ended) <= 4
    worker.run()
    assert len(worker.ended) == 101
    # The messages that were put back cost a fifth of the work at most.
    assert worker.passed * PASS_S < 0.2 * 50 + 2


def test_two_backlogs_get_equal_shares() -> None:
    worker = Worker(*(f"{name} {number} 0.5" for name in ("one", "two") for number in range(50)))
    while len(worker.ended) < 50:
        worker.step()
    assert abs(sum(message.startswith("one") for message in worker.ended) - 25) <= 13
    assert len(worker.run()) == 100


def test_a_namespace_alone_is_neither_put_back_nor_interrupted() -> None:
    for messages in (["alone 1 60"], ["alone 1 0.3", "alone 2 0.3", "alone 3 0.3"]):
        worker = Worker(*messages)
        assert (worker.run(), worker.passed) == (messages, 0)


def test_a_namespace_goes_on_with_the_message_that_it_began() -> None:
    worker = Worker("many 1 1.5", "many 2 1.5", "many 3 1.5", "other 1 4")
    assert [message for message in worker.run() if message.startswith("many")] == [
        "many 1 1.5",
        "many 2 1.5",
        "many 3 1.5",
    ]


def test_a_namespace_that_is_alone_looks_through_the_queue_every_ten_seconds() -> None:
    worker = Worker(*(f"many {number} 30" for number in range(8)))
    assert len(worker.run()) == 8
    # 240 s are 24 turns, and at most 7 other messages wait after each.
    assert 0 < worker.passed <= 24 * 7


def test_a_message_that_another_worker_took_meanwhile_stops_no_lap() -> None:
    worker = Worker("many 1 15", "many 2 1.5", "many 3 1.5")
    worker.step()  # its turn is over
    worker.queue.remove("many 1 15")
    assert worker.run() == ["many 2 1.5", "many 3 1.5"]
