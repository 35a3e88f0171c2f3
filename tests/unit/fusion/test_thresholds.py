"""What is below a threshold of the request is removed, and counted."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fusion.fused_hits import FusedQuestion
from models.branch_result import BranchResult
from tests.unit.fusion.builders import branch, branch_results, fuse_question, hit, ids, plan, request

GIVEN = branch_results(
    bm25=[hit("a", score=12.0), hit("b", score=4.0)],
    vector=[hit("b", score=0.8), hit("c", score=0.3), hit("d", score=0.1)],
    hyde=[hit("b", score=0.9)],
)


def fused(thresholds: dict[str, Any], **options: Any) -> FusedQuestion:
    return fuse_question(plan(**options), GIVEN, 0, request(thresholds=thresholds))


def test_a_hit_below_the_threshold_of_its_branch_counts_as_not_found_by_the_branch() -> None:
    one = fused({"min_branch_score": {"vector": 0.3, "bm25": 5}})
    assert {found.document_id: found.found_by for found in one.hits} == {
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
    given = {**branch_results(bm25=[hit("a")]), "vector": BranchResult.failed("vector", "timeout")}
    asked = request(thresholds={"min_fused_score": 1.0})
    assert ids(fuse_question(plan(), given, 0, asked)) == ["a"]
    # One that found nothing did answer: all of its weight is missing.
    assert ids(fuse_question(plan(), {**given, **branch_results(vector=[])}, 0, asked)) == []


@given(scores=st.lists(st.floats(0, 50), min_size=1, max_size=6))
def test_the_best_of_all_branches_has_the_whole_share(scores: list[float]) -> None:
    hits = [hit(f"d{place}", score=score) for place, score in enumerate(sorted(scores, reverse=True))]
    given = branch_results(bm25=hits, vector=hits, hyde=hits)
    asked = request(top_k=10, thresholds={"min_fused_score": 1.0})
    for method in ("rrf", "rrf-grouped", "min-max", "comb-mnz", "z-score", "dbsf"):
        everything = fuse_question(plan(method=method), given, 0, request(top_k=10))
        best = fuse_question(plan(method=method), given, 0, asked)
        if everything.hits[0].score:
            assert ids(best)[:1] == ids(everything)[:1], method


def test_the_attainable_score_of_late_fusion_is_cut_as_its_scores_are() -> None:
    given = branch_results(bm25=[hit("a", score=40.0)], vector=[hit("a", score=1.0)])
    asked = request(thresholds={"min_fused_score": 1.0})
    one = fuse_question(plan((branch("bm25"), branch("vector")), method="late-fusion"), given, 0, asked)
    assert [(found.document_id, found.score) for found in one.hits] == [("a", 1.0)]


def test_completed_scores_know_the_threshold_of_a_branch() -> None:
    completing = plan((branch("bm25"), branch("vector")), method="min-max", complete_scores=True)
    asked = request(thresholds={"min_branch_score": {"bm25": 5}})
    one = fuse_question(completing, GIVEN, 0, asked, scores={"bm25": {"b#0": 4.0}})
    scored = {found.document_id: found.branches["bm25"].rank for found in one.hits}
    assert scored == {"a": 1, "b": 0, "c": 0, "d": 0}
