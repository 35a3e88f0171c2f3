"""Whose segment is sent next: each tenant's share follows its weight, and a newcomer waits for nobody's backlog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from jobs.fairness import Turns
from jobs.job import SEGMENT_LINES


def sent(turns: Turns, weights: Mapping[str, float], count: int) -> str:
    """The tenants of the next segments, when all of them have work."""
    order = ""
    for _ in range(count):
        tenant = turns.order(weights)[0]
        turns.serve(tenant, SEGMENT_LINES, weights[tenant])
        order += tenant
    return order


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        pytest.param({"a": 1}, "aaaa", id="alone"),
        pytest.param({"a": 1, "b": 1}, "ababab", id="equal"),
        pytest.param({"a": 1, "b": 1, "c": 1}, "abcabc", id="three"),
        # After each segment, a's service grows by 64 and b's by 32.
        pytest.param({"a": 1, "b": 2}, "abbabb", id="twice the share"),
        pytest.param({"a": 0.5, "b": 1}, "abbabb", id="half the share"),
    ],
)
def test_the_tenant_with_the_least_service_is_next(weights: Mapping[str, float], expected: str) -> None:
    assert sent(Turns(), weights, len(expected)) == expected


def test_shares_follow_the_weights_over_many_segments() -> None:
    weights = {"a": 1.0, "b": 2.5, "c": 0.5}

    counts = Counter(sent(Turns(), weights, 800))

    assert counts == {"a": 200, "b": 500, "c": 100}


def test_two_segments_of_a_newcomer_are_next_and_then_it_takes_turns() -> None:
    turns = Turns()
    sent(turns, {"a": 1}, 1_000)

    assert sent(turns, {"a": 1, "b": 1}, 6) == "bbabab"


def test_a_tenant_without_work_saves_up_nothing() -> None:
    turns = Turns()
    sent(turns, {"a": 1, "b": 1}, 10)
    sent(turns, {"a": 1}, 1_000)

    assert sent(turns, {"a": 1, "b": 1}, 6) == "bbabab"


def time_of_b(lines_of_a: int, *, workers: int, waiting: int) -> int:
    """Steps until B's 100 lines are answered.  Each worker answers a segment in a step; `waiting` segments are in the queue
    and, like those in the workers' hands, were sent before B came."""
    turns = Turns()
    left = {"a": -(-lines_of_a // SEGMENT_LINES), "b": 0}
    queue: list[str] = []

    def fill() -> None:
        while len(queue) < waiting and (weights := {name: 1.0 for name, count in left.items() if count}):
            tenant = turns.order(weights)[0]
            turns.serve(tenant, SEGMENT_LINES, 1.0)
            left[tenant] -= 1
            queue.append(tenant)

    def step() -> int:
        """Returns how many segments of B were answered."""
        fill()
        taken = [queue.pop(0) for _ in range(min(workers, len(queue)))]
        fill()
        return taken.count("b")

    for _ in range(5):
        step()
    left["b"] = of_b = 2
    steps = 0
    while of_b:
        of_b -= step()
        steps += 1
    return steps


def test_a_hundred_lines_behind_ten_thousand_end_within_twice_their_time_alone() -> None:
    alone = time_of_b(0, workers=1, waiting=1)
    beside = time_of_b(10_000, workers=1, waiting=1)

    assert (alone, beside) == (2, 3), "a segment of A was in the queue"
