"""Documents with the question's identifiers whole, which the branch names."""

from __future__ import annotations

from dataclasses import replace

import pytest
from chorale_client.request import Request

from models.branch_result import BranchResult
from tests.unit.fusion.builders import (
    answered,
    branch,
    branch_results,
    fuse_question,
    hit,
    ids,
    plan,
    request,
)

RANKED = [hit("other", score=3.0), hit("right", score=2.9), hit("last", score=1.0)]
DENSE = [hit("other", score=0.9), hit("last", score=0.5)]


def fused(method: str, whole: tuple[str, ...]) -> list[str]:
    found = {**branch_results(vector=DENSE, hyde=DENSE), "bm25": _naming(whole)}
    return ids(fuse_question(plan(method=method), found, 0, request("2.10.1")))


def _naming(whole: tuple[str, ...]) -> BranchResult:
    branch_result = answered("bm25", *RANKED)
    return replace(branch_result, rankings=(replace(branch_result.rankings[0], whole=whole),))


@pytest.mark.parametrize("method", ["rrf", "rrf-grouped", "tm2c2"])
def test_the_document_with_the_identifier_stands_above_those_that_every_branch_prefers(method: str) -> None:
    assert fused(method, ())[0] == "other"
    assert fused(method, ("right#0",))[0] == "right"


@pytest.mark.parametrize("method", ["paper", "elastic", "weaviate-relative"])
def test_methods_that_rank_as_another_system_does_keep_their_order(method: str) -> None:
    assert fused(method, ("right#0",)) == fused(method, ())


def test_its_weight_rises_by_the_weights_of_all_branches_and_other_scores_stay() -> None:
    found = {**branch_results(vector=DENSE, hyde=DENSE), "bm25": _naming(("right#0",))}
    hits = {one.document_id: one for one in fuse_question(plan(), found, 0, request("2.10.1")).hits}
    # .3 of BM25, and .3 + .4 + .3 of all.
    assert hits["right"].branches["bm25"].weight == pytest.approx(1.3)
    assert hits["right"].score == pytest.approx(1.3 / 62)
    assert hits["other"].score == pytest.approx((0.3 + 0.4 + 0.3) / 61)


def test_of_several_such_documents_the_better_one_is_first_also_by_passage() -> None:
    assert fused("rrf", ("right#0", "last#0"))[:2] == ["last", "right"]
    asked = Request(questions=("2.10.1",), request_id="r1", fuse_by="passage")
    branch_result = replace(answered("bm25", *RANKED), rankings=(_naming(("right#0",)).rankings[0],))
    by_passage = fuse_question(plan([branch("bm25"), branch("vector")]), {"bm25": branch_result}, 0, asked)
    assert ids(by_passage)[0] == "right"
