"""Hundreds of requests under the adversary; `make soak` runs as many as wanted."""

from __future__ import annotations

import pytest

from tests.soak.questions import Question, wrong
from tests.soak.replicas import soak_replicas
from tests.soak.soak import soak


@pytest.mark.limit_s(600)
@pytest.mark.parametrize("requests", [300, pytest.param(1_000, marks=pytest.mark.long)])
def test_requests_under_attack_each_end_once_and_correctly(requests: int) -> None:
    outcome = soak(requests, seed=1)

    assert outcome.complaints == []
    assert outcome.tally.ended == outcome.tally.requests
    assert outcome.tally.requests > 0.95 * requests, "only who was killed before asking is not counted"
    assert outcome.tally.statuses["complete"] > 0
    assert outcome.tally.statuses["degraded"] > 0


def test_replicas_that_are_killed_in_turn_leave_at_most_one_request_in_fifty_without_an_answer() -> None:
    ends = soak_replicas(540, timeout_s=20)
    assert ends.statuses.total() == 540
    assert (ends.late, ends.failed <= 0.02) == (0, True), ends
    assert ends.killed["replica"] >= 2
    assert ends.killed.total() >= 8


ALL = frozenset({"first", "second", "third"})
RIGHT = {"common.7": ALL, "first.7": {"first"}, "second.7": {"second"}, "third.7": {"third"}}


WITHOUT_THIRD = {name: by - {"third"} for name, by in RIGHT.items() if name != "third.7"}


@pytest.mark.parametrize(
    ("status", "hits", "found_by", "missing", "is_emptied"),
    [
        pytest.param("complete", ["common.8", *list(RIGHT)[1:]], RIGHT, "", False, id="of another question"),
        pytest.param("complete", list(RIGHT)[:3], RIGHT, "", False, id="a branch's hit is lost"),
        pytest.param("complete", [*RIGHT, "common.7"], RIGHT, "", False, id="a hit twice"),
        pytest.param(
            "complete", list(RIGHT), {**RIGHT, "first.7": {"second"}}, "", False, id="of another branch"
        ),
        pytest.param("complete", list(reversed(RIGHT)), RIGHT, "", False, id="in another order"),
        pytest.param(
            "complete", list(WITHOUT_THIRD), WITHOUT_THIRD, "third", False, id="complete without a branch"
        ),
        pytest.param("degraded", list(RIGHT), RIGHT, "third", False, id="with the hits of a missing branch"),
        pytest.param("failed", ["common.7"], RIGHT, "first", False, id="failed with a hit"),
        pytest.param("degraded", ["common.7"], RIGHT, "third", True, id="emptied with a hit"),
    ],
)
def test_the_judge_of_the_soak_detects_wrong_hits(
    status: str, hits: list[str], found_by: dict[str, frozenset[str]], missing: str, is_emptied: bool
) -> None:
    question = Question("q 7", status, hits, found_by)
    assert wrong(question, missing={missing} - {""}, is_emptied=is_emptied)


def test_right_hits_pass_the_judge_of_the_soak() -> None:
    assert wrong(Question("q 7", "complete", list(RIGHT), RIGHT), missing=set(), is_emptied=False) is None
    degraded = Question("q 7", "degraded", list(WITHOUT_THIRD), WITHOUT_THIRD)
    assert wrong(degraded, missing={"third"}, is_emptied=False) is None
