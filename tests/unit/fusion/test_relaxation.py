"""Dropping conditions for questions that find nothing, in the fusion."""

from __future__ import annotations

from typing import Any

import pytest
from chorale_client import InvalidRequest, Request, make_request

from fusion.conditions import least_relaxed, without_filters
from fusion.fused_hits import FusedQuestion
from fusion.rerank import Reached, rerank_question
from models.branch_result import BranchResult
from models.hits import Ranking
from models.plan import RerankPlan
from tests.unit.fusion.builders import fuse_question, hit, plan

FILTERS = {"year": 2024, "shop": "north", "kind": "rule"}


def found(*ids: str, relaxed: int = 0) -> Ranking:
    return Ranking(tuple(hit(id_, score=1.0 - place / 10) for place, id_ in enumerate(ids)), relaxed=relaxed)


def branch_results(**rankings: Ranking) -> dict[str, BranchResult]:
    return {name: BranchResult(name, "ok", rankings=(one,)) for name, one in rankings.items()}


def fused(request: Request, **rankings: Ranking) -> FusedQuestion:
    return fuse_question(plan(), least_relaxed(branch_results(**rankings)), 0, request)


def test_filters_are_dropped_in_the_order_of_relax_and_the_others_stay() -> None:
    asked = make_request("q", filters=FILTERS, relax=["filters.kind", "filters.year"])
    assert [sorted(without_filters(asked, count).filters) for count in (0, 1, 2)] == [
        ["kind", "shop", "year"],
        ["shop", "year"],
        ["shop"],
    ]


def test_what_a_branch_found_with_more_filters_stands_alone() -> None:
    asked = make_request("q", filters=FILTERS, relax=["filters.kind", "filters.year"])
    one = fused(asked, bm25=found("a", relaxed=2), vector=found("b", relaxed=1), hyde=found("c", relaxed=1))
    assert {hit.document_id for hit in one.hits} == {"b", "c"}
    assert one.relaxed == ("filters.kind",)
    one = fused(asked, bm25=found("a", relaxed=2), vector=found("b"), hyde=Ranking())
    assert ([hit.document_id for hit in one.hits], one.relaxed) == (["b"], ())
    one = fused(asked, bm25=found("a", relaxed=2), vector=Ranking(), hyde=Ranking())
    assert ([hit.document_id for hit in one.hits], one.relaxed) == (["a"], ("filters.kind", "filters.year"))


def test_thresholds_are_dropped_where_nothing_is_above_them() -> None:
    options: dict[str, Any] = {
        "thresholds": {"min_branch_score": {"bm25": 5.0}, "min_fused_score": 0.99},
        "relax": ["thresholds.min_fused_score", "thresholds.min_branch_score"],
    }
    asked = make_request("q", **options)
    one = fused(asked, bm25=found("a"), vector=found("b"))
    assert (len(one.hits), one.relaxed) == (1, ("thresholds.min_fused_score",))
    assert one.removed == {"min_branch_score": 1}
    one = fused(asked, bm25=found("a"))
    assert one.relaxed == ("thresholds.min_fused_score", "thresholds.min_branch_score")
    assert (len(one.hits), one.removed) == (1, {})
    assert [note.stage for note in one.stages].count("fuse") == 1
    nothing = fused(asked, bm25=Ranking())
    assert (nothing.hits, nothing.relaxed) == ((), ())
    strict = fused(make_request("q", **{**options, "relax": ()}), bm25=found("a"))
    assert (strict.hits, strict.relaxed) == ((), ())


def test_a_condition_that_relax_names_twice_is_dropped_once() -> None:
    asked = make_request("q", thresholds={"min_fused_score": 0.99}, relax=["thresholds.min_fused_score"] * 2)
    assert fused(asked, bm25=Ranking()).relaxed == ()
    assert fused(asked, bm25=found("a"), vector=found("b")).relaxed == ("thresholds.min_fused_score",)
    twice = make_request("q", filters=FILTERS, relax=["filters.kind", "filters.kind", "filters.year"])
    assert fused(twice, bm25=found("a", relaxed=2)).relaxed == ("filters.kind", "filters.year")


@pytest.mark.parametrize(
    ("best", "relaxed", "removed"),
    [(0.0, ("thresholds.min_rerank_score",), {}), (5.0, (), {"min_rerank_score": 1})],
    ids=["none above", "one above"],
)
def test_the_reranker_s_threshold_is_dropped_if_no_hit_is_above_it(
    best: float, relaxed: tuple[str, ...], removed: dict[str, int]
) -> None:
    rerank = RerankPlan(name="r", depth=10, coarse=10, budget_ms=100, weight=1.0)
    asked = make_request(
        "q", thresholds={"min_rerank_score": 0.9}, relax=["thresholds.min_rerank_score"], top_k=1
    )
    one = fuse_question(plan(rerank=rerank), branch_results(bm25=found("a", "b")), 0, asked)
    reached = Reached(["a#0", "b#0"], {"a#0": -1.0, "b#0": best})
    page = rerank_question(one, rerank, reached, asked, plan())
    assert ([hit.document_id for hit in page.hits], page.relaxed, page.removed) == (["b"], relaxed, removed)


@pytest.mark.parametrize(
    "name", ["year", "filters.colour", "thresholds.min_fused_score", "top_k", "filters."]
)
def test_what_is_no_condition_of_the_request_cannot_be_dropped(name: str) -> None:
    with pytest.raises(InvalidRequest, match=r"relax: no condition .* there are: 'filters\.year'"):
        make_request("q", filters={"year": 2024}, relax=[name])
