"""Which configuration ranks judged questions better, what each branch did, and what to judge next, worked out on short lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2

import pytest

from evaluation.judged.judged_comparison import JudgedComparison, RankedQuestion, compare_judged
from records.judgements.pooling import JudgedQuestion

SECOND = 1 / log2(3)
Pair = tuple[Sequence[str], Sequence[str]]


def ranked(
    text: str, a: Sequence[str], b: Sequence[str], without: Mapping[str, Pair] | None = None
) -> RankedQuestion:
    return RankedQuestion(("docs", text), f"request of {text}", 0, "sentence", (a, b), without or {})


def judged(text: str, grades: Mapping[str, int], *, nothing_fits: bool = False) -> JudgedQuestion:
    return JudgedQuestion("docs", text, text, grades, nothing_fits)


def compared(questions: Sequence[RankedQuestion], *judgements: JudgedQuestion) -> JudgedComparison:
    return compare_judged(questions, {(each.namespace, each.text_hash): each for each in judgements})


def test_wins_losses_and_the_mean_are_over_the_questions_with_a_relevant_document() -> None:
    comparison = compared(
        [
            ranked("won", ["bad", "good"], ["good", "bad"]),
            ranked("lost", ["good", "bad"], ["bad", "good"]),
            ranked("won again", ["bad", "good"], ["good", "bad"]),
            ranked("equal", ["good"], ["good"]),
            ranked("without a good one", ["bad"], []),
            ranked("unjudged", ["new"], []),
        ],
        *(judged(text, {"good": 3, "bad": 0}) for text in ("won", "lost", "won again", "equal")),
        judged("without a good one", {"bad": 0}),
    )
    assert comparison.questions == 4
    assert comparison.ndcg == pytest.approx(((SECOND + 1 + SECOND + 1) / 4, (1 + SECOND + 1 + 1) / 4))
    assert comparison.gain is not None
    assert (comparison.gain.wins, comparison.gain.losses) == (2, 1)
    assert comparison.gain.mean == pytest.approx((1 - SECOND) / 4)
    assert comparison.better is None
    # Everything is judged, so the ends are the difference itself.
    assert comparison.ends == pytest.approx(((1 - SECOND) / 4,) * 2)
    assert comparison.certain == "B"


def test_a_side_that_always_wins_is_better_beyond_chance() -> None:
    texts = [f"question {number}" for number in range(12)]
    questions = [ranked(text, ["good", "bad"], ["bad", "good"]) for text in texts]
    comparison = compared(questions, *(judged(text, {"good": 1, "bad": 0}) for text in texts))
    assert (comparison.better, comparison.certain) == ("A", "A")


def test_unjudged_documents_are_counted_and_never_count_as_bad() -> None:
    comparison = compared([ranked("q", ["good"], ["new", "good"])], judged("q", {"good": 1}))
    assert comparison.ndcg == (1.0, 1.0)
    assert (comparison.lowest, comparison.hits, comparison.unjudged) == ((1.0, SECOND), (1, 2), (0, 1))
    # With grade 3 `new` leads B; A has nothing unjudged.
    assert comparison.highest == (1.0, 1.0)
    assert comparison.certain is None


def test_a_branch_rescues_what_only_it_brings_in_and_hurts_what_it_pushes_out() -> None:
    others = [f"other {number}" for number in range(10)]
    with_it = [*others[:9], "rescued"]
    without_it = [*others[:9], "pushed out"]
    comparison = compared(
        [
            ranked("q", with_it, others, {"bm25": (without_it, others), "vector": (with_it, with_it)}),
            ranked("unjudged", with_it, others),
        ],
        judged("q", {"rescued": 1, "pushed out": 2, "other 0": 0}),
    )
    bm25, vector = comparison.branches
    assert (bm25.branch, bm25.kind, bm25.questions) == ("bm25", "sentence", 1)
    assert (bm25.rescued, bm25.hurt) == ((1, 0), (1, 0))
    assert (vector.rescued, vector.hurt) == ((0, 0), (0, 1))


def test_what_to_judge_next_differs_most_in_discount_and_is_unjudged() -> None:
    comparison = compared(
        [
            ranked("far down", ["a", "b", "c", "d"], ["a", "b", "d", "c"]),
            ranked("at the top", ["a", "b"], ["b", "a"]),
            ranked("judged", ["a", "b"], ["b", "a"]),
            ranked("half judged", ["a", "b"], ["b", "a"]),
            ranked("equal", ["a", "b"], ["a", "b"]),
            ranked("unanswerable", ["a", "b"], ["b", "a"]),
        ],
        judged("judged", {"a": 0, "b": 1}),
        judged("half judged", {"a": 0}),
        judged("unanswerable", {}, nothing_fits=True),
    )
    assert [question.name[1] for question in comparison.open] == ["at the top", "half judged", "far down"]
    first, half, _ = comparison.open
    assert (first.request_id, first.unjudged, first.documents) == ("request of at the top", 2, ["a", "b"])
    assert (first.possible_change, half.possible_change) == pytest.approx((2 * (1 - SECOND), 1 - SECOND))


def test_without_a_question_nothing_is_better() -> None:
    comparison = compared([])
    assert (comparison.questions, comparison.gain, comparison.better, comparison.certain) == (
        0,
        None,
        None,
        None,
    )
