"""nDCG@10 of partly judged rankings, and the ends of a difference, worked out by hand."""

from __future__ import annotations

import random
from itertools import product
from math import log2

import pytest

from evaluation.judged.metrics import difference_ends, discount_differences, measure_each, ndcg

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
