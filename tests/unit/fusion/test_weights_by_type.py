"""Weights of their own for a type of question."""

from __future__ import annotations

from chorale_client.request import Request

from tests.unit.fusion.builders import branch, branch_results, fuse_question, hit, plan, request

BRANCHES = [branch("bm25", 0.2), branch("vector", 0.8)]
FOUND = branch_results(bm25=[hit("lexical")], vector=[hit("dense")])


def _first(question: str, **weights: dict[str, float]) -> str:
    asked = plan(BRANCHES, weights_by_type=weights)
    return fuse_question(asked, FOUND, 0, request(question)).hits[0].document_id


def test_the_weights_of_the_questions_type_replace_those_of_the_branches() -> None:
    lexical = {"bm25": 0.9, "vector": 0.1}
    assert _first("error E4711", identifier=lexical) == "lexical"
    assert _first("how do I leave?", identifier=lexical) == "dense"
    # Each question has those of its own type, and a branch that the type does not name keeps its own.
    asked = plan(BRANCHES, weights_by_type={"identifier": {"bm25": 0.9}}, searched=(1,))
    both = Request(questions=("how do I leave?", "error E4711"), request_id="r1")
    hits = fuse_question(asked, FOUND, 0, both).hits
    assert {hit.document_id: one.weight for hit in hits for one in hit.branches.values()} == {
        "lexical": 0.9,
        "dense": 0.8,
    }
