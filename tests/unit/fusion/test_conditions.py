"""What is below a threshold of the request is removed and counted, and conditions are dropped where nothing is found."""

from __future__ import annotations

from typing import Any

import pytest
from chorale_client import InvalidRequest, Request, make_request
from hypothesis import given
from hypothesis import strategies as st

from fusion.conditions import least_relaxed, without_filters
from fusion.fused_hits import FusedQuestion
from fusion.rerank import Reached, rerank_question
from models.branch_result import BranchResult
from models.hits import Ranking
from models.plan import RerankPlan
from tests.unit.fusion.builders import branch, branch_results, fuse_question, hit, ids, plan, request

RESULTS = branch_results(
    bm25=[hit("a", score=12.0), hit("b", score=4.0)],
    vector=[hit("b", score=0.8), hit("c", score=0.3), hit("d", score=0.1)],
    hyde=[hit("b", score=0.9)],
)


def fused(thresholds: dict[str, Any], **options: Any) -> FusedQuestion:
    return fuse_question(plan(**options), RESULTS, 0, request(thresholds=thresholds))


def test_a_hit_below_the_threshold_of_its_branch_counts_as_not_found_by_the_branch() -> None:
    one = fused({"min_branch_score": {"vector": 0.3, "bm25": 5}})
    assert {each.document_id: each.found_by for each in one.hits} == {
        "b": ("hyde", "vector"),
        "a": ("bm25",),
        "c": ("vector",),
    }
    assert one.removed == {"min_branch_score": 2}
    assert [(note.n_in, note.n_out) for note in one.stages if note.stage == "threshold"] == [(6, 4)]


def test_the_fused_threshold_is_a_share_of_the_score_of_a_document_that_all_put_first() -> None:
    # b: (.3/62 + .4/61 + .3/61) / (1/61); a: .3; c: .4 x 61/62; d: .4 x 61/63
    assert ids(fused({"min_fused_score": 0.995})) == ["b"]
    assert ids(fused({"min_fused_score": 0.9952})) == []
    assert ids(fused({"min_fused_score": 0.39})) == ["b", "c"]
    one = fused({"min_fused_score": 0.3})
    assert (ids(one), one.removed) == (["b", "c", "d", "a"], {"min_fused_score": 0})
    # It reads the score before boosts.
    assert ids(fused({"min_fused_score": 0.35}, boosts={"authority": {"none": 9.0}})) == ["b", "c", "d"]


def test_a_branch_that_did_not_answer_is_not_part_of_the_attainable_score() -> None:
    results = {**branch_results(bm25=[hit("a")]), "vector": BranchResult.failed("vector", "timeout")}
    search = request(thresholds={"min_fused_score": 1.0})
    assert ids(fuse_question(plan(), results, 0, search)) == ["a"]
    # One that found nothing did answer: all of its weight is missing.
    assert ids(fuse_question(plan(), {**results, **branch_results(vector=[])}, 0, search)) == []


@given(scores=st.lists(st.floats(0, 50), min_size=1, max_size=6))
def test_the_best_of_all_branches_has_the_whole_share(scores: list[float]) -> None:
    hits = [hit(f"d{place}", score=score) for place, score in enumerate(sorted(scores, reverse=True))]
    results = branch_results(bm25=hits, vector=hits, hyde=hits)
    search = request(top_k=10, thresholds={"min_fused_score": 1.0})
    for method in ("rrf", "rrf-grouped", "min-max", "comb-mnz", "z-score", "dbsf"):
        everything = fuse_question(plan(method=method), results, 0, request(top_k=10))
        best = fuse_question(plan(method=method), results, 0, search)
        if everything.hits[0].score:
            assert ids(best)[:1] == ids(everything)[:1], method


def test_the_attainable_score_of_late_fusion_is_cut_as_its_scores_are() -> None:
    results = branch_results(bm25=[hit("a", score=40.0)], vector=[hit("a", score=1.0)])
    search = request(thresholds={"min_fused_score": 1.0})
    one = fuse_question(plan((branch("bm25"), branch("vector")), method="late-fusion"), results, 0, search)
    assert [(each.document_id, each.score) for each in one.hits] == [("a", 1.0)]


def test_completed_scores_know_the_threshold_of_a_branch() -> None:
    completing = plan((branch("bm25"), branch("vector")), method="min-max", complete_scores=True)
    search = request(thresholds={"min_branch_score": {"bm25": 5}})
    one = fuse_question(completing, RESULTS, 0, search, scores={"bm25": {"b#0": 4.0}})
    scored = {each.document_id: each.branches["bm25"].rank for each in one.hits}
    assert scored == {"a": 1, "b": 0, "c": 0, "d": 0}


FILTERS = {"year": 2024, "shop": "north", "kind": "rule"}


def retrieved(*ids: str, relaxed: int = 0) -> Ranking:
    return Ranking(tuple(hit(id_, score=1.0 - place / 10) for place, id_ in enumerate(ids)), relaxed=relaxed)


def results_of(**rankings: Ranking) -> dict[str, BranchResult]:
    return {name: BranchResult(name, "ok", rankings=(one,)) for name, one in rankings.items()}


def fused_relaxed(request: Request, **rankings: Ranking) -> FusedQuestion:
    return fuse_question(plan(), least_relaxed(results_of(**rankings)), 0, request)


def test_filters_are_dropped_in_the_order_of_relax_and_the_others_stay() -> None:
    search = make_request("q", filters=FILTERS, relax=["filters.kind", "filters.year"])
    assert [sorted(without_filters(search, count).filters) for count in (0, 1, 2)] == [
        ["kind", "shop", "year"],
        ["shop", "year"],
        ["shop"],
    ]


def test_what_a_branch_found_with_more_filters_stands_alone() -> None:
    search = make_request("q", filters=FILTERS, relax=["filters.kind", "filters.year"])
    one = fused_relaxed(
        search,
        bm25=retrieved("a", relaxed=2),
        vector=retrieved("b", relaxed=1),
        hyde=retrieved("c", relaxed=1),
    )
    assert {hit.document_id for hit in one.hits} == {"b", "c"}
    assert one.relaxed == ("filters.kind",)
    one = fused_relaxed(search, bm25=retrieved("a", relaxed=2), vector=retrieved("b"), hyde=Ranking())
    assert ([hit.document_id for hit in one.hits], one.relaxed) == (["b"], ())
    one = fused_relaxed(search, bm25=retrieved("a", relaxed=2), vector=Ranking(), hyde=Ranking())
    assert ([hit.document_id for hit in one.hits], one.relaxed) == (["a"], ("filters.kind", "filters.year"))


def test_thresholds_are_dropped_where_nothing_is_above_them() -> None:
    options: dict[str, Any] = {
        "thresholds": {"min_branch_score": {"bm25": 5.0}, "min_fused_score": 0.99},
        "relax": ["thresholds.min_fused_score", "thresholds.min_branch_score"],
    }
    search = make_request("q", **options)
    one = fused_relaxed(search, bm25=retrieved("a"), vector=retrieved("b"))
    assert (len(one.hits), one.relaxed) == (1, ("thresholds.min_fused_score",))
    assert one.removed == {"min_branch_score": 1}
    one = fused_relaxed(search, bm25=retrieved("a"))
    assert one.relaxed == ("thresholds.min_fused_score", "thresholds.min_branch_score")
    assert (len(one.hits), one.removed) == (1, {})
    assert [note.stage for note in one.stages].count("fuse") == 1
    nothing = fused_relaxed(search, bm25=Ranking())
    assert (nothing.hits, nothing.relaxed) == ((), ())
    strict = fused_relaxed(make_request("q", **{**options, "relax": ()}), bm25=retrieved("a"))
    assert (strict.hits, strict.relaxed) == ((), ())


def test_a_condition_that_relax_names_twice_is_dropped_once() -> None:
    search = make_request("q", thresholds={"min_fused_score": 0.99}, relax=["thresholds.min_fused_score"] * 2)
    assert fused_relaxed(search, bm25=Ranking()).relaxed == ()
    assert fused_relaxed(search, bm25=retrieved("a"), vector=retrieved("b")).relaxed == (
        "thresholds.min_fused_score",
    )
    twice = make_request("q", filters=FILTERS, relax=["filters.kind", "filters.kind", "filters.year"])
    assert fused_relaxed(twice, bm25=retrieved("a", relaxed=2)).relaxed == ("filters.kind", "filters.year")


@pytest.mark.parametrize(
    ("best", "relaxed", "removed"),
    [(0.0, ("thresholds.min_rerank_score",), {}), (5.0, (), {"min_rerank_score": 1})],
    ids=["none above", "one above"],
)
def test_the_reranker_s_threshold_is_dropped_if_no_hit_is_above_it(
    best: float, relaxed: tuple[str, ...], removed: dict[str, int]
) -> None:
    rerank = RerankPlan(name="r", depth=10, coarse=10, budget_ms=100, weight=1.0)
    search = make_request(
        "q", thresholds={"min_rerank_score": 0.9}, relax=["thresholds.min_rerank_score"], top_k=1
    )
    one = fuse_question(plan(rerank=rerank), results_of(bm25=retrieved("a", "b")), 0, search)
    reached = Reached(["a#0", "b#0"], {"a#0": -1.0, "b#0": best})
    page = rerank_question(one, rerank, reached, search, plan())
    assert ([hit.document_id for hit in page.hits], page.relaxed, page.removed) == (["b"], relaxed, removed)


@pytest.mark.parametrize(
    "name", ["year", "filters.colour", "thresholds.min_fused_score", "top_k", "filters."]
)
def test_what_is_no_condition_of_the_request_cannot_be_dropped(name: str) -> None:
    with pytest.raises(InvalidRequest, match=r"relax: no condition .* there are: 'filters\.year'"):
        make_request("q", filters={"year": 2024}, relax=[name])
