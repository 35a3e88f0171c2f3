"""What the feedback on shared pages decides, and when."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import comb

import pytest

from evaluation.recorded.live_comparison import STOPS_AT, chosen_hits, compare_live, e_value
from fusion.interleaving import Team
from records.judgements.feedback import Event, Feedback, RecordedQuestion
from records.judgements.impressions import Impression

TEAMS: Mapping[str, Team] = {"a1": "A", "a2": "A", "b1": "B", "b2": "B"}
THUMB_UP, THUMB_DOWN = ("thumb_up", None), ("thumb_down", None)


def event(document_id: str | None, action: str = "click", grade: int | None = None) -> Feedback:
    question = RecordedQuestion(
        request_id="r", question=0, namespace="docs", configuration="rrf", text="t", text_hash="h"
    )
    read = Event.model_validate(
        {"request_id": "r", "action": action, "document_id": document_id, "grade": grade}
    )
    return Feedback.on(question, read, 1, "k", "user")


def impression(*events: Feedback, teams: Mapping[str, Team] = TEAMS) -> Impression:
    return Impression("r", teams, events)


A, B, TIE = impression(event("a1")), impression(event("b1")), impression(event("a1"), event("b2"))


@pytest.mark.parametrize(
    ("events", "chosen_a", "chosen_b"),
    [
        ([], 0, 0),
        ([event("a1"), event("a2"), event("b1")], 2, 1),
        ([event("shown by both"), event(None, "nothing_fits")], 0, 0),
        ([event("a1"), event("a1", *THUMB_UP)], 1, 0),
        ([event("a1"), event("a1", *THUMB_DOWN)], 0, 0),
        ([event("a1", *THUMB_DOWN), event("a1", *THUMB_UP)], 1, 0),
        ([event("a1", "grade", 1), event("b1", "grade", 2), event("b2", "grade", 3)], 0, 2),
    ],
)
def test_a_hit_is_chosen_by_a_click_or_by_its_latest_judgement(
    events: list[Feedback], chosen_a: int, chosen_b: int
) -> None:
    chosen = chosen_hits(impression(*events))
    assert (chosen["A"], chosen["B"]) == (chosen_a, chosen_b)


def test_requests_are_won_tied_or_undecided() -> None:
    alike = impression(event("a1"), teams={})
    compared = compare_live("rrf", "scores", [A, B, B, TIE, impression(), alike])
    assert (compared.shared, compared.different, compared.wins, compared.ties) == (6, 5, {"A": 1, "B": 2}, 1)
    # 2^3 B(2, 3) = 8 * 1! * 2! / 4! = 2/3
    assert compared.e_value == pytest.approx(2 / 3)
    assert (compared.better, compared.decided_after) == (None, None)
    assert compared.verdict == (
        "no decision yet: A won 1 requests, B 2, 1 are ties, e = 0.667; decided at 20"
    )


def test_the_e_value_is_the_mean_likelihood_ratio_of_all_probabilities() -> None:
    # 2^n w! l! / (n + 1)! = 2^n / ((n + 1) C(n, w))
    for wins, losses in ((0, 0), (1, 0), (8, 0), (7, 0), (14, 9), (60, 40)):
        n = wins + losses
        assert e_value(wins, losses) == pytest.approx(2**n / ((n + 1) * comb(n, wins)))
    assert e_value(8, 0) == pytest.approx(256 / 9)
    assert e_value(5_000, 0) > 1e300


def test_eight_wins_in_a_row_decide_and_seven_do_not() -> None:
    # 128/8 = 16, 256/9 = 28.4
    assert compare_live("rrf", "scores", [B] * 7).better is None
    compared = compare_live("rrf", "scores", [B] * 8)
    assert (compared.better, compared.decided_after) == ("B", 8)
    assert compared.verdict.startswith(
        "B (scores) is better, decided after 8 won requests: A won 0 requests, B 8"
    )


def test_what_comes_after_a_decision_does_not_change_it() -> None:
    compared = compare_live("rrf", "scores", [A] * 8 + [B] * 8)
    assert (compared.better, compared.decided_after, compared.wins) == ("A", 8, {"A": 8, "B": 8})
    assert compared.e_value < 1


def test_equal_configurations_are_distinguished_at_most_once_in_twenty_times() -> None:
    """All 2^12 ways in which twelve requests can be won, each as probable as any other if both are alike."""
    wrong = sum(
        compare_live("a", "b", [(A, B)[side] for side in sides]).better is not None
        for sides in product((0, 1), repeat=12)
    )
    assert 0 < wrong / 2**12 <= 1 / STOPS_AT
