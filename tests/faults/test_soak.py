"""A thousand requests under the adversary; `make soak` runs as many as wanted."""

from __future__ import annotations

import pytest

from tests.soak.questions import Question, wrong
from tests.soak.soak import soak


@pytest.mark.limit_s(600)
def test_a_thousand_requests_under_attack_each_end_once_and_correctly() -> None:
    found = soak(1_000, seed=1)

    assert found.complaints == []
    assert found.tally.ended == found.tally.requests > 950, "only who was killed before asking is not counted"
    assert found.tally.statuses["complete"] > 0
    assert found.tally.statuses["degraded"] > 0


ALL = frozenset({"first", "second", "third"})
RIGHT = {"common.7": ALL, "first.7": {"first"}, "second.7": {"second"}, "third.7": {"third"}}


class TestTheJudge:
    """The soak's judge must detect wrong answers."""

    def test_the_right_hits_pass(self) -> None:
        assert wrong(Question("q 7", "complete", list(RIGHT), RIGHT), missing=set(), is_emptied=False) is None

    @pytest.mark.parametrize(
        ("hits", "found_by"),
        [
            pytest.param(["common.8", *list(RIGHT)[1:]], RIGHT, id="of another question"),
            pytest.param(list(RIGHT)[:3], RIGHT, id="a branch's hit is lost"),
            pytest.param([*RIGHT, "common.7"], RIGHT, id="a hit twice"),
            pytest.param(list(RIGHT), {**RIGHT, "first.7": {"second"}}, id="of another branch"),
            pytest.param(list(reversed(RIGHT)), RIGHT, id="in another order"),
        ],
    )
    def test_wrong_hits_are_detected(self, hits: list[str], found_by: dict[str, frozenset[str]]) -> None:
        assert wrong(Question("q 7", "complete", hits, found_by), missing=set(), is_emptied=False)

    def test_a_branch_that_is_named_missing_and_answered_is_detected(self) -> None:
        degraded = Question("q 7", "degraded", list(RIGHT), RIGHT)
        assert wrong(degraded, missing={"third"}, is_emptied=False)

    def test_a_complete_answer_without_a_branch_is_detected(self) -> None:
        hits = {name: by - {"third"} for name, by in RIGHT.items() if name != "third.7"}
        assert wrong(Question("q 7", "complete", list(hits), hits), missing={"third"}, is_emptied=False)
        assert (
            wrong(Question("q 7", "degraded", list(hits), hits), missing={"third"}, is_emptied=False) is None
        )

    def test_hits_are_detected_where_none_are_expected(self) -> None:
        assert wrong(Question("q 7", "failed", ["common.7"], RIGHT), missing=set(ALL), is_emptied=False)
        assert wrong(Question("q 7", "degraded", ["common.7"], RIGHT), missing={"third"}, is_emptied=True)
