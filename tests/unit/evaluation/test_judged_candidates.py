"""The candidates of judged questions, and the figures of a reranker on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chorale_client.answer import Answer
from chorale_client.request import Request

from evaluation.collection import Collection
from evaluation.held_out import best_blend
from evaluation.judged_candidates import Candidate, JudgedQuestion, keep, kept, mined
from models.errors import ServiceError
from tests.unit.evaluation.answers import answer, hit, question

GRADES = {"q1": {"d1": 1, "d9": 0}, "q2": {"d3": 2}}


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    documents = [{"_id": f"d{n}", "title": f"Title {n}", "text": f"text {n}"} for n in range(5)]
    (corpus := tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)))
    return Collection("tiny", corpus, {"q1": "one", "q2": "two"}, GRADES)


def _ask(request: Request, **also: Any) -> Answer:
    assert (request.rerank, request.cache, request.include) == ("off", "bypass", ("texts", "metadata"))
    texts = {"d1": "Title and text", "d2": "text of d2", "q1": "text of q1"}
    hits = [hit(rank, id_, title="Title", text=text) for rank, (id_, text) in enumerate(texts.items(), 1)]
    return answer(*[question(hits=hits)] * len(request.questions), **also)


def test_candidates_are_what_branches_found_and_the_other_relevant_documents(collection: Collection) -> None:
    first, second = mined(collection, depth=100, ask=_ask)
    # The hit that is the question itself is left out, and a title that the text repeats stands once.
    repeated, other = Candidate("d1", 1.0, "Title and text"), Candidate("d2", 0.5, "Title\ntext of d2")
    assert first.candidates == [repeated, other]
    assert (first.relevant, first.negatives) == (["Title and text"], ["Title\ntext of d2"])
    assert (second.relevant, len(second.negatives)) == (["Title 3\ntext 3"], 3)

    missing = [("search.vector", "timeout")]
    with pytest.raises(ServiceError, match=r"not whole: search\.vector timeout"):
        mined(collection, depth=100, ask=lambda request: _ask(request, missing=missing))


def test_kept_candidates_are_read_if_they_are_of_the_same(collection: Collection, tmp_path: Path) -> None:
    questions = mined(collection, depth=100, ask=_ask)
    file = tmp_path / "candidates.json"
    assert kept(file, of={"collection": "tiny"}) is None
    keep(questions, file, of={"collection": "tiny"})
    assert kept(file, of={"collection": "tiny"}) == questions
    assert kept(file, of={"collection": "other"}) is None


def _question(name: str) -> JudgedQuestion:
    candidates = [Candidate("wrong", 0.9, ""), Candidate("right", 0.5, ""), Candidate("below", 0.1, "")]
    return JudgedQuestion(name, name, candidates, {"right": 1})


def test_the_weight_is_the_smallest_of_those_that_order_the_candidates_best() -> None:
    blend = best_blend([_question("a"), _question("b")], [[-9.0, 9.0], [-9.0, 9.0]])
    # 1 x (1 - w) against 0.5 x (1 - w) + w.
    assert (blend.weight, blend.ndcg, blend.alone) == (0.4, 1.0, 1.0)
    assert blend.fused == pytest.approx(0.6309, abs=1e-4)
    assert (blend.low, blend.high) == pytest.approx((1 - blend.fused, 1 - blend.fused))
    # A reranker that knows nothing:
    blend = best_blend([_question("a")], [[9.0, -9.0]])
    assert (blend.weight, blend.ndcg) == (0.1, blend.fused)
