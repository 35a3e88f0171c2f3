"""Where a document of a recorded request went, step by step."""

from __future__ import annotations

from typing import Any

from evaluation.recorded.whereabouts import Whereabouts, whereabouts
from models.hits import Hit, Ranking
from tests.unit.evaluation.recorded import LISTS, record


def where(document_id: str, *, late: tuple[str, ...] = (), **recorded: Any) -> Whereabouts:
    request = record(**recorded)
    fused = request.fused(request.plan, 0, without=late)
    return whereabouts(request, request.plan, 0, document_id, fused, late=late)


def test_a_hit_has_its_rank_in_each_branch_in_the_fusion_and_in_the_answer() -> None:
    place = where("exact", answered=["both", "near", "exact"])
    assert [(branch.branch, branch.rank, branch.why) for branch in place.branches] == [
        ("bm25", 1, ""),
        ("vector", 3, ""),
        ("hyde", None, "not among its 2 documents"),
    ]
    assert (place.fused_rank, place.answer_rank) == (3, 3)
    assert place.steps == ["The fusion puts it at rank 3.", "The answer has it at rank 3."]


def test_a_document_behind_the_last_hit_of_the_page_is_said_to_be_cut_there() -> None:
    place = where("far", answered=["both", "near"], top_k=2)
    assert (place.fused_rank, place.answer_rank) == (4, None)
    assert place.steps[-1] == "The page ends at rank 2 (offset + top_k)."


def test_a_document_that_no_branch_found_is_said_to_be_found_by_none() -> None:
    place = where("elsewhere")
    assert place.steps == ["No branch found it."]
    assert (place.fused_rank, place.answer_rank) == (None, None)


def test_a_branch_that_was_late_or_never_reported_says_so() -> None:
    place = where("near", late=("hyde",), lists={name: LISTS[name] for name in ("vector", "hyde")})
    assert [branch.why for branch in place.branches] == [
        "it has not reported",
        "",
        "it reported after the deadline",
    ]


def test_a_document_that_the_request_excludes_is_named_as_excluded() -> None:
    assert where("both", exclude_ids=["both"]).steps == ["The request excludes it (exclude_ids)."]


def test_a_copy_is_said_to_be_folded_into_its_hit() -> None:
    copies = Ranking(
        tuple(
            Hit(f"{name}#0", name, score, content_hash="same") for name, score in (("new", 2.0), ("old", 1.0))
        )
    )
    place = where("old", lists={"bm25": copies}, answered=["new"])
    assert place.steps == ["It is folded into new, which has rank 1 (exact_copy)."]


def test_the_reranker_is_named_where_it_moved_a_document_off_the_page() -> None:
    rerank = {"name": "one", "depth": 50, "coarse": 50, "budget_ms": 100, "weight": 0.8}
    place = where("both", answered=["near", "exact"], planned={"rerank": rerank}, top_k=2)
    assert place.steps == [
        "The fusion puts it at rank 1.",
        "The reranker moved it behind rank 2, where the page ends.",
    ]
