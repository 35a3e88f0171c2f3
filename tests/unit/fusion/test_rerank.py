"""The order that a cross-encoder's scores make of fused hits."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.answer import Pages, answer_fields
from fusion.branch_results import BranchAnswers
from fusion.fused_hits import FusedQuestion
from fusion.rerank import Reached, candidates, min_max, rerank_question, sigmoid
from tests.unit.fusion.builders import RERANK, branch, branch_results, fuse_question, hit, ids, plan, request

ONE = (branch("bm25", weight=1.0),)
TEN = [hit(f"d{place}") for place in range(10)]


def pages(
    logits: Mapping[str, float] | None,
    *,
    chosen: int = 10,
    rerank: Mapping[str, Any] | None = None,
    **options: Any,
) -> FusedQuestion:
    """Ten documents by BM25, d0 the first, after reranking; `logits` is by document."""
    by_rerank = RERANK.model_copy(update=rerank)
    planned = plan(ONE, rerank=by_rerank)
    search = request(**{"top_k": 10, **options})
    fused = fuse_question(planned, branch_results(bm25=TEN), 0, search)
    by_passage = None if logits is None else {f"{name}#0": logit for name, logit in logits.items()}
    reached = Reached({f"d{place}#0" for place in range(chosen)}, by_passage)
    return rerank_question(fused, by_rerank, reached, search, planned)


def test_a_reranked_score_is_three_tenths_of_the_fused_and_seven_of_the_reranked() -> None:
    hits = {one.document_id: one for one in pages({f"d{place}": float(place) for place in range(10)}).hits}
    # RRF, k 60, weight 1: min-max of 1/(60 + rank) over ranks 1 to 10
    fused = (1 / 64 - 1 / 70) / (1 / 61 - 1 / 70)
    assert hits["d3"].score == pytest.approx(0.3 * fused + 0.7 / (1 + exp(-3)))
    assert hits["d3"].rerank is not None
    assert hits["d3"].rerank.score == pytest.approx(1 / (1 + exp(-3)))
    assert hits["d3"].rerank.fused_score == pytest.approx(1 / 64)
    assert (sigmoid(-1000), sigmoid(0), sigmoid(1000)) == (0, 0.5, 1)


def test_hits_without_a_rerank_score_stay_below_in_the_fused_order_with_a_reason() -> None:
    page = pages({"d0": -9.0, "d4": 2.0}, chosen=6)
    assert ids(page) == ["d4", "d0", "d1", "d2", "d3", "d5", "d6", "d7", "d8", "d9"]
    stages = {one.document_id: one.rerank.stage for one in page.hits if one.rerank}
    assert stages == {
        **dict.fromkeys(("d4", "d0"), "reranked"),
        **dict.fromkeys(("d1", "d2", "d3", "d5"), "coarse_fallback"),
        **dict.fromkeys(("d6", "d7", "d8", "d9"), "coarse_only"),
    }


def test_a_score_does_not_depend_on_how_many_hits_were_reranked() -> None:
    logits = {f"d{place}": 1.5 - place for place in range(10)}
    whole = {one.document_id: one.score for one in pages(logits).hits}
    for count in range(1, 10):
        few = pages(dict(list(logits.items())[:count]))
        assert {one.document_id: one.score for one in few.hits[:count]} == {
            name: whole[name] for name in list(logits)[:count]
        }


@given(
    logits=st.dictionaries(st.sampled_from([f"d{place}" for place in range(10)]), st.floats(-50, 50)),
    chosen=st.integers(0, 10),
    weight=st.floats(0.01, 1),
    coarse=st.integers(1, 100),
)
def test_the_score_never_rises_with_the_rank_and_no_hit_is_lost(
    logits: dict[str, float], chosen: int, weight: float, coarse: int
) -> None:
    page = pages(logits, chosen=chosen, rerank={"weight": weight, "coarse": coarse})
    scores = [one.score for one in page.hits]
    assert scores == sorted(scores, reverse=True)
    assert sorted(ids(page)) == [f"d{place}" for place in range(10)]
    reached = [one.document_id in logits for one in page.hits]
    assert reached == sorted(reached, reverse=True)


def test_without_a_single_score_the_fused_order_and_scores_stand() -> None:
    reranked = pages(None, thresholds={"min_rerank_score": 0.5})
    assert ids(reranked) == [f"d{place}" for place in range(10)]
    assert reranked.removed == {"min_rerank_score": 0}
    assert [one.score for one in reranked.hits] == pytest.approx([1 / (61 + place) for place in range(10)])
    assert reranked.score_kind is None
    assert {one.rerank.stage for one in reranked.hits if one.rerank} == {"coarse_fallback"}


def test_pages_are_cut_after_reranking_and_join_without_gap_or_copy() -> None:
    logits = {f"d{place}": float(place % 4) for place in range(8)}
    whole, second = pages(logits), pages(logits, top_k=6, offset=4)
    assert ids(pages(logits, top_k=4)) + ids(second) == ids(whole)
    assert [one.score for one in second.hits] == [one.score for one in whole.hits[4:]]


def test_hits_below_the_coarse_list_stay_with_a_normalised_score_of_zero() -> None:
    assert min_max([4, 3, 2, 1], coarse=3) == [1, 0.5, 0, 0]
    assert min_max([2, 2, 1], coarse=2) == [1, 1, 0]
    assert min_max([], coarse=3) == []
    assert ids(pages({"d1": 1.0}, rerank={"coarse": 2, "depth": 2}))[:3] == ["d1", "d0", "d2"]


def test_the_best_hit_of_every_question_is_reranked_before_any_second_hit() -> None:
    planned = plan(ONE, rerank=RERANK, searched=(0, 2))
    first = fuse_question(planned, branch_results(bm25=[hit("a"), hit("b")]), 0, request())
    second = fuse_question(planned, branch_results(bm25=[hit("c")]), 0, request())
    ordered = candidates({0: first, 2: second}, depth=2)
    assert [(index, one.document_id) for index, one in ordered] == [(0, "a"), (2, "c"), (0, "b")]
    assert len(candidates({0: first, 2: second}, depth=1)) == 2


def test_the_answer_names_the_rerank_stage_of_each_hit() -> None:
    page = Pages({0: pages({"d1": 0.0}, chosen=2, top_k=3)})
    answer = answer_fields(BranchAnswers(request(top_k=3), plan(ONE), branch_results(bm25=TEN)), page)
    hits = answer["questions"][0]["hits"]
    assert [one["score_kind"] for one in hits] == ["rerank"] * 3
    assert hits[0]["rerank"] == {"score": 0.5, "stage": "reranked", "fused_score": pytest.approx(1 / 62)}
    assert hits[1]["rerank"] == {"stage": "coarse_fallback", "fused_score": pytest.approx(1 / 61)}
    assert hits[2]["rerank"]["stage"] == "coarse_only"


def test_hits_below_the_reranker_s_threshold_and_hits_that_it_did_not_reach_are_removed() -> None:
    logits = {"d0": -2.0, "d1": 0.0, "d2": 3.0, "d3": 1.0}
    one = pages(logits, chosen=6, thresholds={"min_rerank_score": 0.5})
    assert ids(one) == ["d2", "d3", "d1"]
    assert one.removed == {"min_rerank_score": 7}
    second = pages(logits, chosen=6, thresholds={"min_rerank_score": 0.5}, top_k=1, offset=1)
    assert (ids(second), second.removed) == (["d3"], {"min_rerank_score": 7})
