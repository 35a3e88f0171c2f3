"""The measures against figures computed by hand, and known pitfalls."""

from __future__ import annotations

from math import log2

import pytest

from evaluation.judged.metrics import measure, measure_each, without_itself

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
