"""Weights of their own for a type of question."""

from __future__ import annotations

from chorale_client.request import Request

from tests.unit.fusion.builders import branch, envelopes, fuse_question, hit, plan, request

BRANCHES = [branch("bm25", 0.2), branch("vector", 0.8)]
FOUND = envelopes(bm25=[hit("lexical")], vector=[hit("dense")])


def _first(question: str, **weights: dict[str, float]) -> str:
    asked = plan(BRANCHES, weights_by_type=weights)
    return fuse_question(asked, FOUND, 0, request(question)).hits[0].document_id


def test_the_weights_of_the_questions_type_replace_those_of_the_branches() -> None:
    assert _first("error E4711", identifier={"bm25": 0.9, "vector": 0.1}) == "lexical"
    assert _first("how do I leave?", identifier={"bm25": 0.9, "vector": 0.1}) == "dense"


def test_a_branch_that_the_type_does_not_name_keeps_its_weight() -> None:
    asked = plan(BRANCHES, weights_by_type={"identifier": {"bm25": 0.9}})
    hits = fuse_question(asked, FOUND, 0, request("error E4711")).hits
    assert {name: one.weight for hit in hits for name, one in hit.branches.items()} == {
        "bm25": 0.9,
        "vector": 0.8,
    }


def test_each_question_of_a_request_has_the_weights_of_its_own_type() -> None:
    asked = plan(BRANCHES, weights_by_type={"identifier": {"bm25": 0.9, "vector": 0.1}}, asked=(1,))
    both = Request(questions=("how do I leave?", "error E4711"), request_id="r1")
    assert fuse_question(asked, FOUND, 0, both).hits[0].document_id == "lexical"
