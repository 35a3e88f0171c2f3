"""The type of a question by its form, and the weights of their own that a type may have."""

from __future__ import annotations

import pytest
from chorale_client.request import Request

from fusion.question_terms import QUESTION_TYPES, question_type
from tests.unit.fusion.builders import branch, branch_results, fuse_question, hit, plan, request


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ERR_CONNECTION_RESET", "identifier"),
        ("what does E4711 mean?", "identifier"),
        ("is IL-6 raised in adults", "identifier"),
        ("where is pushState called", "identifier"),
        ("what is rule 10.1.2(a)?", "identifier"),
        ("10:30", "identifier"),
        ("$1,299.00", "identifier"),
        ("C++", "identifier"),
        ("a job with C# or .NET", "identifier"),
        ("192.168.1.1", "identifier"),
        ("2024-03-14", "identifier"),
        ("what is AB 123 4", "identifier"),
        ("os.path.join", "identifier"),
        ("std::vector", "identifier"),
        ("rent deposit", "keyword"),
        ("state-of-the-art batteries 3.5", "keyword"),
        ("inflation 2021", "keyword"),
        ("the strikes of the 1990s", "sentence"),
        ("how do I hand in my notice?", "sentence"),
        ("chi paga le riparazioni?", "sentence"),
        ("what happens to " + "very " * 25 + "long questions", "long"),
        ("", "keyword"),
        # The greatest length takes no time.
        ("a" * 8_192, "keyword"),
        ("1." * 4_096, "keyword"),
    ],
    ids=lambda text: text[:30],
)
def test_the_form_gives_the_type(text: str, kind: str) -> None:
    assert question_type(text) == kind
    assert kind in QUESTION_TYPES


BRANCHES = [branch("bm25", 0.2), branch("vector", 0.8)]
RESULTS = branch_results(bm25=[hit("lexical")], vector=[hit("dense")])


def _first(question: str, **weights: dict[str, float]) -> str:
    planned = plan(BRANCHES, weights_by_type=weights)
    return fuse_question(planned, RESULTS, 0, request(question)).hits[0].document_id


def test_the_weights_of_the_questions_type_replace_those_of_the_branches() -> None:
    lexical = {"bm25": 0.9, "vector": 0.1}
    assert _first("error E4711", identifier=lexical) == "lexical"
    assert _first("how do I leave?", identifier=lexical) == "dense"
    # Each question has those of its own type, and a branch that the type does not name keeps its own.
    planned = plan(BRANCHES, weights_by_type={"identifier": {"bm25": 0.9}}, searched=(1,))
    both = Request(questions=("how do I leave?", "error E4711"), request_id="r1")
    hits = fuse_question(planned, RESULTS, 0, both).hits
    assert {hit.document_id: one.weight for hit in hits for one in hit.branches.values()} == {
        "lexical": 0.9,
        "dense": 0.8,
    }
