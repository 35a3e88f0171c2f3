"""Several texts of one question in one branch."""

from __future__ import annotations

import pytest
from chorale_client.request import Variant

from fusion.rankings import DENSE, LEXICAL, branch_texts, merged_dense, merged_lexical
from models.hits import Hit, Ranking


def variant(kind: str, text: str, *, replace: bool = False) -> Variant:
    return Variant.model_validate({"kind": kind, "text": text, "replace": replace})


def ranking(**scores: float) -> Ranking:
    return Ranking(tuple(Hit(name, name, score) for name, score in scores.items()), total_matches=9)


def scores(found: Ranking) -> dict[str, float]:
    return {hit.passage_id: hit.score for hit in found.hits}


def test_each_branch_takes_only_the_variants_of_its_own_kinds() -> None:
    variants = [variant("keyword", "tea"), variant("semantic", "What is tea?"), variant("entity", "Assam")]
    assert branch_texts("q", variants, LEXICAL) == {"q": 1, "tea": 0.5, "Assam": 0.5}
    assert branch_texts("q", variants, DENSE) == {"q": 1, "What is tea?": 0.5}
    # A text that comes twice is searched once.
    assert branch_texts("q", [variant("keyword", "q"), variant("entity", "q")], LEXICAL) == {"q": 1}


def test_a_variant_that_replaces_the_question_gets_the_questions_weight_unless_it_has_no_text() -> None:
    variants = [variant("keyword", "tea"), variant("entity", "Assam", replace=True)]
    assert branch_texts("q", variants, LEXICAL) == {"Assam": 1, "tea": 0.5}
    assert branch_texts("q", [variant("keyword", " \n", replace=True)], LEXICAL) == {"q": 1}


def test_one_text_keeps_its_ranking_as_it_is() -> None:
    one = ranking(a=3, b=1)
    assert merged_lexical([one], [1]) is one
    assert merged_dense([one]) is one


def test_bm25_sums_the_scores_of_all_texts_on_the_first_ones_scale() -> None:
    # The scale is 8 / (1 + .5); a has 8/8 there and 1/4 of the variant, b 2/8 and nothing, c the variant's best.
    found = merged_lexical([ranking(a=8, b=2), ranking(c=4, a=1)], [1, 0.5])
    unit = 8 / 1.5
    assert scores(found) == pytest.approx(
        {"a": unit * (1 + 0.5 / 4), "c": unit * 0.5, "b": unit * 2 / 8}, rel=1e-12
    )
    assert [hit.passage_id for hit in found.hits] == ["a", "c", "b"]
    # A hit that is first for every text keeps the top score.
    assert scores(merged_lexical([ranking(a=8), ranking(a=3)], [1, 0.5])) == pytest.approx({"a": 8})
    # The variant's scale holds if the question finds nothing.
    found = merged_lexical([ranking(), ranking(a=3, b=1.5)], [1, 0.5])
    assert scores(found) == pytest.approx({"a": 3 / 1.5 * 0.5, "b": 3 / 1.5 * 0.25})


def test_dense_takes_the_best_cosine_and_ties_go_by_id_in_any_order_of_the_texts() -> None:
    best = merged_dense([ranking(a=0.9, b=0.2), ranking(b=0.5, c=-0.1)])
    assert scores(best) == {"a": 0.9, "b": 0.5, "c": -0.1}
    one, other = ranking(b=1, a=1), ranking(c=1)
    assert [hit.passage_id for hit in merged_dense([one, other]).hits] == ["a", "b", "c"]
    assert merged_dense([one, other]).hits == merged_dense([other, one]).hits


def test_warnings_stay_once_and_the_total_is_not_known() -> None:
    warned = Ranking(warnings=("no field x",))
    found = merged_dense([warned, warned])
    assert (found.warnings, found.total_matches) == (("no field x",), None)
