"""What another configuration would have answered to recorded requests, worked out from lists of three documents."""

from __future__ import annotations

from collections.abc import Mapping
from math import log2
from typing import Any

import pytest

from evaluation.judged.judged_comparison import QuestionName
from evaluation.recorded import replayed_comparison
from evaluation.recorded.replayed_comparison import (
    DEADLINES_MS,
    ReplayedComparison,
    compare_replayed,
    rank_distance,
)
from models.hits import Hit, Ranking
from models.tables.audit import RequestRow
from records.judgements.pooling import JudgedQuestion
from tests.unit.evaluation.recorded import LISTS, PIPELINE, record

FAR_ALONE = {"bm25": ("far",), "vector": ("both",), "hyde": ("both",)}


def row(lists: Any = LISTS, **values: Any) -> RequestRow:
    return record(lists, **values).row


def compared(*rows: RequestRow, a: str | None = None, b: str | None = "bm25") -> ReplayedComparison:
    return compare_replayed(rows, PIPELINE, a, b)


def test_the_recorded_lists_are_fused_under_both_configurations() -> None:
    # As recorded: both, near, exact, far.  BM25 alone: exact, both, far.
    request = row()
    comparison = compared(request)
    assert (comparison.questions, comparison.left_out, comparison.changed_first) == (1, {}, 1)
    assert comparison.overlap == pytest.approx(3 / 4)
    (moved,) = comparison.moved
    assert moved.first == ("both", "exact")
    # both 1 to 2, near 2 to 4 (it is in three, so behind them), exact 3 to 1, far 4 to 3.
    assert moved.distance == 1 + 2 + 2 + 1
    assert (moved.request_id, moved.position, moved.text) == (request.request_id, 0, "how is a list sorted?")


def test_a_and_b_exchange_their_sides_and_equal_ones_or_no_request_move_nothing() -> None:
    (moved,) = compared(row(), a="bm25", b="rrf").moved
    assert moved.first == ("exact", "both")
    same = compared(row(), row(), a="rrf", b="rrf")
    assert (same.questions, same.overlap, same.moved, same.changed_first) == (2, 1.0, [], 0)
    nothing = compared()
    assert (nothing.questions, nothing.overlap, nothing.moved, nothing.alone) == (0, 0.0, [], {})


def test_the_questions_that_moved_most_come_first_and_the_mean_is_over_all() -> None:
    same = row(dict.fromkeys(LISTS, ("exact", "both")))
    most = row({"bm25": ("exact",), "vector": ("both",), "hyde": ("near",)})
    comparison = compared(same, row(), most)
    # Of three documents BM25 alone has one.
    assert [moved.overlap for moved in comparison.moved] == pytest.approx([1 / 3, 3 / 4])
    assert comparison.overlap == pytest.approx((1 + 3 / 4 + 1 / 3) / 3)
    many = compared(row(), row(), row())
    assert (many.questions, len(many.moved)) == (3, 1), "each text is listed once"


def test_documents_that_only_one_branch_found_count_for_it() -> None:
    # As recorded, `far` is the only document that a single branch found; under BM25 alone all three are.
    assert compared(row()).alone == {"bm25": (1, 3), "vector": (0, 0), "hyde": (0, 0)}
    assert compared(row(FAR_ALONE)).alone["bm25"] == (1, 1)


def test_what_was_not_recorded_is_left_out_and_counted_by_its_reason() -> None:
    cached, unplanned, without_lists, shallow, unread = (row() for _ in range(5))
    cached.questions[0].cached = True
    unplanned.plan, unplanned.ended_by = None, "admission"
    without_lists.branches[0].candidates = None
    assert shallow.plan is not None
    shallow.plan["branches"][0]["depth"] = 7
    assert unread.plan is not None
    unread.plan["branches"] = "of another version"
    narrow = row(
        {"vector": ("both",)},
        planned={"branches": [row().plan["branches"][1]]},  # type: ignore[index]
    )
    silent = row({})
    comparison = compared(
        row(), cached, cached, unplanned, without_lists, shallow, unread, narrow, silent, b="rrf"
    )
    depth = record().plan.branches[0].depth
    assert comparison.questions == 1
    assert comparison.left_out == {
        "the answer came from the cache": 2,
        "it was not searched (ended by admission)": 1,
        "candidates of bm25: they were left out (the outbox was too long, or CHORALE_AUDIT_HITS_SHARE)": 1,
        f"depth of bm25: 7 documents are recorded, and {depth} are wanted": 1,
        "another version has written it": 1,
        "branch bm25: the request did not search it": 1,
        "no branch has answered": 1,
    }
    assert next(iter(comparison.left_out)) == "the answer came from the cache"


def test_an_option_that_the_other_configuration_does_not_offer_is_the_reason() -> None:
    (reason,) = compared(row(thresholds={"min_branch_score": {"hyde": 0.1}})).left_out
    assert reason == "thresholds.min_branch_score: no 'hyde'; there are: bm25"


def test_requests_are_compared_until_there_are_enough_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replayed_comparison, "MOST_QUESTIONS", 2)
    comparison = compared(*(row() for _ in range(5)))
    assert comparison.questions == 2
    assert comparison.left_out == {"2 questions are compared already": 5 - 2}


def test_scores_that_only_the_stores_know_make_the_comparison_approximate() -> None:
    assert compared(row(), b="scores").approximate == 1
    assert compared(row(), b="rrf-grouped").approximate == 0


def test_a_deadline_costs_the_branches_that_report_after_it() -> None:
    comparison = compared(row(reported_ms={"bm25": 20, "vector": 120, "hyde": 900}))
    # Whole: both, near, exact, far.  At 50 ms BM25 alone (without near), from 150 ms also the vectors (all four).
    nothing_missing = {ms: 1.0 for ms in DEADLINES_MS if ms >= 150}
    assert {ms: overlap for ms, (_, overlap) in comparison.within.items()} == pytest.approx(
        {50: 3 / 4, 100: 3 / 4, **nothing_missing}
    )
    complete = {ms: share for ms, (share, _) in comparison.within.items()}
    assert complete == {ms: float(ms >= 1_000) for ms in DEADLINES_MS}


def test_a_request_without_a_branch_s_report_is_complete_at_no_deadline() -> None:
    within = compared(row({"bm25": LISTS["bm25"], "vector": LISTS["vector"]})).within
    assert {share for share, _ in within.values()} == {0.0}


@pytest.mark.parametrize(
    ("ours", "theirs", "distance"),
    [("ab", "ab", 0), ("ab", "ba", 2), ("abc", "cab", 4), ("ab", "cd", 2 * (2 + 1)), ("", "ab", 0 + 1)],
)
def test_the_rank_distance_adds_the_ranks_by_which_documents_moved(
    ours: str, theirs: str, distance: int
) -> None:
    assert rank_distance(list(ours), list(theirs)) == distance
    assert rank_distance(list(theirs), list(ours)) == distance


def named(request: RequestRow, text: str) -> RequestRow:
    """The request with its question's name; `text` stands for its hash."""
    request.namespace, request.questions[0].text_hash = "docs", text
    return request


def judged(**grades: Mapping[str, int]) -> dict[QuestionName, JudgedQuestion]:
    """Grades by the name of the question."""
    return {("docs", text): JudgedQuestion("docs", text, text, each, False) for text, each in grades.items()}


def test_judged_questions_are_measured_once_each_under_both_configurations() -> None:
    # As recorded: both, near, exact, far.  BM25 alone: exact, both, far.
    rows = [named(row(), "q"), named(row(), "q"), named(row(), "other")]
    grades = judged(q={"exact": 3, "both": 0})
    comparison = compare_replayed(rows, PIPELINE, None, "bm25", grades)
    assert (comparison.questions, comparison.judged.questions) == (3, 1)
    # Of the judged documents A has both, exact, and B exact, both.
    assert comparison.judged.ndcg == pytest.approx((1 / log2(3), 1.0))
    assert comparison.judged.unjudged == (2, 1)
    only = compare_replayed(rows, PIPELINE, None, "bm25", grades, only_judged=True)
    assert (only.questions, only.judged.questions, only.left_out) == (1, 1, {})


def test_a_branch_rescues_what_the_fusion_without_it_does_not_show() -> None:
    # Without BM25 nobody finds `far`; the dense branches find `near` both.
    effects = compare_replayed(
        [named(row(), "q")], PIPELINE, None, "bm25", judged(q={"far": 1, "near": 1})
    ).judged.branches
    assert {effect.branch: effect.rescued for effect in effects} == {
        "bm25": (1, 1),
        "vector": (0, 0),
        "hyde": (0, 0),
    }
    assert {(effect.kind, effect.questions, effect.hurt) for effect in effects} == {("sentence", 1, (0, 0))}


def test_a_judged_copy_stands_for_its_hit() -> None:
    copies = Ranking(tuple(Hit(name, name, 1.0, content_hash="same") for name in ("kept", "copy")))
    request = named(row({"bm25": copies, "vector": (), "hyde": ()}), "q")
    comparison = compare_replayed([request], PIPELINE, None, "bm25", judged(q={"copy": 2}))
    assert comparison.judged.ndcg == (1.0, 1.0)
    assert comparison.judged.unjudged == (0, 0)
