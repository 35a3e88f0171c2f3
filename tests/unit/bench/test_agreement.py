"""How much two rankings agree: worked out by hand."""

from __future__ import annotations

import pytest

from bench.agreement import overlap, rank_biased_overlap


def test_equal_rankings_agree_wholly() -> None:
    assert overlap("abc", "abc", 10) == 1
    assert rank_biased_overlap("abc", "abc") == pytest.approx(1)


def test_overlap_does_not_mind_the_order_and_looks_no_deeper_than_asked() -> None:
    assert overlap("abcd", "bax", 2) == 1
    # a and b of the three that the longer one has
    assert overlap("abcd", "ba", 3) == pytest.approx(2 / 3)


def test_what_nobody_found_is_agreement_and_what_one_found_alone_is_none() -> None:
    assert overlap("", "", 10) == rank_biased_overlap("", "") == 1
    assert overlap("a", "", 10) == rank_biased_overlap("a", "") == 0
    assert rank_biased_overlap("ab", "cd") == 0


def test_a_swap_at_the_top_costs_more_than_one_below() -> None:
    # p = .5: shares of 0, 2/2, 3/3 at the ranks 1 to 3, and of 1 below: (1/4 + 1/8) x 1 + 1/8.
    assert rank_biased_overlap("bac", "abc", 0.5) == pytest.approx(0.5)
    # shares of 1/1, 1/2, 3/3: (1/2 + 1/8 + 1/8) x 1 + 1/8
    assert rank_biased_overlap("acb", "abc", 0.5) == pytest.approx(0.875)


def test_the_longer_ranking_counts_down_to_the_end_of_the_shorter() -> None:
    assert rank_biased_overlap("abcdef", "abx") == pytest.approx(rank_biased_overlap("abc", "abx"))
