"""When a queue counts as overloaded, and for how long new requests are refused."""

from __future__ import annotations

import pytest

from monitoring.queues import QueueState
from tasks.sweeping.admission import (
    FEWEST_WAITING,
    LONGEST_RETRY_MS,
    SHORTEST_RETRY_MS,
    UNKNOWN_RETRY_MS,
    Bounds,
    Judge,
    Judgement,
)

BRANCHES = ("chorale.bm25", "chorale.vector")
EMPTY = QueueState(0)
BOUNDS = Bounds(100, 1.0)


def judged(*observations: dict[str, QueueState], bounds: Bounds = BOUNDS, every_s: float = 0.25) -> Judgement:
    """The last judgement of several observations; queues that an observation does not name are empty."""
    judge = Judge(bounds, branch_queues=BRANCHES)
    queues = (*BRANCHES, "chorale.retrieve", "chorale.fusion")
    judgements = [
        judge.judge({queue: observation.get(queue, EMPTY) for queue in queues}, 1_000 + number * every_s)
        for number, observation in enumerate(observations)
    ]
    return judgements[-1]


def moving(
    length: int, age_s: float | None = None, queue: str = "chorale.vector"
) -> list[dict[str, QueueState]]:
    """Three observations of a served queue: each has another oldest message."""
    return [{queue: QueueState(length, age_s, oldest=f"message {number}")} for number in range(3)]


def over(judgement: Judgement) -> dict[str, str]:
    return {queue: load.over for queue, load in judgement.loads.items() if load.over}


@pytest.mark.parametrize(
    ("length", "age_s", "by"),
    [
        (100, None, "length"),
        (99, None, None),
        (FEWEST_WAITING, 1.0, "age"),
        (FEWEST_WAITING, 0.9, None),
        # However old they are.
        (FEWEST_WAITING - 1, 50, None),
    ],
)
def test_a_branch_over_its_length_or_age_is_named_and_nobody_is_refused(
    length: int, age_s: float | None, by: str | None
) -> None:
    judgement = judged(*moving(length, age_s))
    assert over(judgement) == ({"chorale.vector": by} if by else {})
    assert judgement.retry_after_ms is None


def test_a_queue_without_a_worker_or_with_one_that_has_hung_for_a_second_is_no_overload() -> None:
    stuck = {"chorale.vector": QueueState(5_000, 30, oldest="message 2")}
    assert over(judged(*[stuck] * 8)) == {}
    assert over(judged(*moving(5_000, 30), stuck)) == {"chorale.vector": "length"}
    assert over(judged(*moving(5_000, 30), *[stuck] * 5)) == {}


def test_a_queue_is_over_its_bound_if_two_observations_in_a_row_exceed_it() -> None:
    first, second, third = moving(100)
    assert over(judged(first, second)) == {}
    assert over(judged(first, second, third)) == {"chorale.vector": "length"}
    assert over(judged(first, second, third, {})) == {}


def test_a_queue_without_messages_to_look_at_is_served_if_the_broker_counts_workers() -> None:
    for workers, expected in ((1, {"chorale.vector": "length"}), (0, {})):
        assert over(judged(*[{"chorale.vector": QueueState(100, 5, workers=workers)}] * 3)) == expected


@pytest.mark.parametrize(("bounds", "by"), [(Bounds(0, 1.0), "age"), (Bounds(100, 0), "length")])
def test_each_bound_can_be_turned_off(bounds: Bounds, by: str) -> None:
    assert over(judged(*moving(1_000, 50), bounds=bounds)) == {"chorale.vector": by}
    assert over(judged(*moving(1_000, 50), bounds=Bounds(0, 0))) == {}


@pytest.mark.parametrize("queue", ["chorale.retrieve", "chorale.fusion"])
def test_new_requests_are_refused_if_planning_or_fusion_is_over_its_bound(queue: str) -> None:
    # A new message waits about as long as the oldest one has.
    assert judged(*moving(50, 2.5, queue)).retry_after_ms == 2_500


def test_new_requests_are_refused_if_every_branch_is_over_its_bound() -> None:
    first, second = (moving(50, age_s, queue) for queue, age_s in zip(BRANCHES, (1.5, 3), strict=True))
    assert judged(*(one | other for one, other in zip(first, second, strict=True))).retry_after_ms == 3_000


def test_without_an_age_the_wait_is_computed_from_the_recent_throughput() -> None:
    observations = [
        {"chorale.fusion": QueueState(length, oldest=str(length))} for length in (1_000, 900, 800)
    ]
    # 100 messages in 0.25 s are 400 a second: 800 take two seconds.
    assert judged(*observations).retry_after_ms == 2_000


def test_the_wait_is_bounded_and_has_a_default() -> None:
    assert judged(*moving(50, 300, "chorale.fusion")).retry_after_ms == LONGEST_RETRY_MS
    assert judged(*moving(200, 0.01, "chorale.fusion")).retry_after_ms == SHORTEST_RETRY_MS
    assert judged(*moving(200, None, "chorale.fusion")).retry_after_ms == UNKNOWN_RETRY_MS
