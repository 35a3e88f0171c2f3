"""The measures, nDCG@10 of partly judged rankings, and how sure a gain is: worked out by hand."""

from __future__ import annotations

import random
from itertools import product
from math import log2

import pytest

from evaluation.judged.metrics import (
    difference_ends,
    discount_differences,
    measure,
    measure_each,
    ndcg,
    paired_gain,
    without_itself,
)

JUDGEMENTS = {"q1": {"a": 1, "b": 2, "c": 0}, "q2": {"d": 1}}


def test_the_measures_are_those_of_the_textbook() -> None:
    figures = measure(JUDGEMENTS, {"q1": ["x", "b", "a"], "q2": ["d"]})
    gain = 2 / log2(3) + 1 / log2(4)
    ideal = 2 / log2(2) + 1 / log2(3)
    assert figures["ndcg@10"] == pytest.approx((gain / ideal + 1) / 2, abs=1e-4)
    assert figures["mrr@10"] == pytest.approx((1 / 2 + 1) / 2)
    assert figures["recall@10"] == figures["recall@100"] == 1


def test_documents_beyond_the_cutoff_do_not_count() -> None:
    figures = measure({"q": {"a": 1}}, {"q": [*(f"x{n}" for n in range(10)), "a"]})
    assert figures == {"ndcg@10": 0, "recall@10": 0, "mrr@10": 0, "recall@100": 1}


def test_the_measures_keep_the_given_order_and_ignore_the_ids() -> None:
    # trec_eval would sort equal scores by id, descending: "z" before "a".
    assert measure({"q": {"a": 1}}, {"q": ["a", "z"]})["mrr@10"] == 1
    assert measure({"q": {"z": 1}}, {"q": ["a", "z"]})["mrr@10"] == pytest.approx(1 / 2)


def test_the_hit_that_is_the_question_itself_is_left_out_and_each_document_counts_once() -> None:
    assert measure({"q": {"a": 1}}, {"q": ["q", "a"]}, own={"q"})["mrr@10"] == 1
    assert without_itself("q", ["a", "b", "a", "q"], {"q"}) == ["a", "b"]


def test_a_document_that_only_has_the_number_of_the_question_is_a_hit_like_any_other() -> None:
    assert measure({"1": {"1": 1}, "2": {"7": 1}}, {"1": ["1"], "2": ["2", "7"]}, own={"3"})["mrr@10"] == 0.75


def test_each_question_has_its_value_and_a_question_without_a_ranking_has_0() -> None:
    each = measure_each({"q1": {"a": 1}, "q2": {"b": 1}, "q3": {"c": 1}}, {"q1": ["a"], "q2": ["x", "b"]})
    assert each["mrr@10"] == {"q1": 1.0, "q2": 0.5, "q3": 0.0}
    assert measure(JUDGEMENTS, {"q2": ["d"]})["mrr@10"] == pytest.approx(1 / 2)
    assert measure(JUDGEMENTS, {})["recall@100"] == 0


SECOND, THIRD = 1 / log2(3), 1 / log2(4)
"""The discounts of the second and the third place; that of the first is 1."""


def test_a_whole_judged_ranking_has_the_value_of_trec_eval() -> None:
    rng = random.Random(7)
    documents = [f"d{number}" for number in range(30)]
    for _ in range(50):
        grades = {name: rng.randrange(4) for name in rng.sample(documents, rng.randrange(1, 20))}
        ranking = rng.sample(documents, rng.randrange(1, 25))
        expected = measure_each({"q": grades}, {"q": ranking})["ndcg@10"]["q"]
        assert ndcg(ranking, grades) == pytest.approx(expected, abs=1e-12)


def test_an_unjudged_document_is_left_out_or_takes_the_given_grade() -> None:
    ranking, grades = ["new", "good"], {"good": 2, "bad": 0}
    assert ndcg(ranking, grades, unjudged=None) == 1.0
    assert ndcg(ranking, grades, unjudged=0) == pytest.approx(SECOND)
    # With grade 3 the unjudged document is the best one, and the ranking is ideal.
    assert ndcg(ranking, grades, unjudged=3) == 1.0
    assert ndcg(["bad", "new"], grades, unjudged=3) == pytest.approx(3 * SECOND / (3 + 2 * SECOND))
    assert ndcg(["bad"], {"bad": 0}) == ndcg([], grades) == 0.0


def test_documents_below_the_tenth_move_up_where_unjudged_ones_are_left_out() -> None:
    ranking = [*(f"new{number}" for number in range(10)), "good"]
    assert ndcg(ranking, {"good": 1}, unjudged=0) == 0.0
    assert ndcg(ranking, {"good": 1}, unjudged=None) == 1.0


def test_only_documents_with_another_rank_differ_in_their_discount() -> None:
    differences = discount_differences(["same", "up", "out"], ["same", "in", "up"])
    assert differences == pytest.approx({"up": THIRD - SECOND, "out": -THIRD, "in": SECOND})


def test_the_ends_of_a_whole_judged_difference_are_the_difference() -> None:
    a, b, grades = ["good", "bad"], ["bad", "good"], {"good": 3, "bad": 0}
    assert difference_ends(a, b, grades) == pytest.approx((SECOND - 1, SECOND - 1))


def test_no_grades_of_unjudged_documents_give_a_difference_outside_of_its_ends() -> None:
    a, b = ["known", "x", "y", "z"], ["y", "known", "z", "x"]
    for known in (0, 2):
        low, high = difference_ends(a, b, {"known": known})
        for grades in product(range(4), repeat=3):
            all_grades = {"known": known, **dict(zip("xyz", grades, strict=True))}
            difference = ndcg(b, all_grades) - ndcg(a, all_grades)
            assert low - 1e-12 <= difference <= high + 1e-12
        assert -1 <= low < 0 < high <= 1


def test_the_sign_is_certain_once_the_open_documents_weigh_less_than_the_judged_ones() -> None:
    # `good` falls from 1 to the second place: 3 x (1 - .63); `new` is open, and rises from the fourth to the third.
    a, b = ["good", "bad", "worse", "new"], ["bad", "good", "new", "worse"]
    low, high = difference_ends(a, b, {"good": 3, "bad": 0, "worse": 0})
    lost, gained = 3 * (SECOND - 1), 3 * (THIRD - 1 / log2(5))
    assert (low, high) == pytest.approx((lost / 3, (lost + gained) / (3 + 3 * SECOND)))
    assert high < 0


def test_a_gain_on_nearly_all_questions_is_better_and_a_loss_is_not() -> None:
    gain = paired_gain([0.6] * 40 + [0.4] * 2, [0.5] * 42)
    assert (gain.wins, gain.losses, gain.questions) == (40, 2, 42)
    assert gain.mean == pytest.approx((40 * 0.1 - 2 * 0.1) / 42)
    assert 0 < gain.low < gain.mean < gain.high
    assert gain.is_better
    loss = paired_gain([0.4] * 30, [0.5] * 30)
    assert (loss.is_distinguishable, loss.is_better) == (True, False)


def test_differences_by_chance_are_not_distinguishable() -> None:
    rng = random.Random(3)
    old = [rng.random() for _ in range(200)]
    gain = paired_gain([value + rng.gauss(0, 0.1) for value in old], old)
    assert gain.low < 0 < gain.high
    assert gain.p > 0.05


def test_four_wins_among_a_hundred_equal_questions_are_too_few() -> None:
    """Nearly every resample of the bootstrap has one of them; four coins that show heads are no surprise."""
    gain = paired_gain([1.0] * 4 + [0.5] * 96, [0.5] * 100)
    assert gain.p == pytest.approx(2 / 16, abs=0.02)
    assert not gain.is_distinguishable


def test_the_interval_covers_the_mean_about_as_often_as_it_says() -> None:
    rng = random.Random(5)
    covered = 0
    for _ in range(40):
        gain = paired_gain([rng.gauss(0.05, 0.2) for _ in range(60)], [0.0] * 60)
        covered += gain.low <= 0.05 <= gain.high
    assert covered >= 33


def test_equal_rankings_have_no_gain_and_the_same_seed_gives_the_same_result() -> None:
    gain = paired_gain([0.3, 0.7], [0.3, 0.7])
    assert (gain.mean, gain.low, gain.high, gain.p) == (0, 0, 0, 1)
    new, old = [0.1, 0.9, 0.4, 0.8], [0.2, 0.5, 0.4, 0.6]
    assert paired_gain(new, old, seed=7) == paired_gain(new, old, seed=7)
