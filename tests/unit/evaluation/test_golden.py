"""Judging the answers to golden questions, and their figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from chorale_client.answer import Answer
from chorale_client.request import Request

from evaluation.judged.golden import GoldenQuestion, WrongGolden, figures, judge, recall
from evaluation.judged.metrics import measure_each, ndcg
from tests.unit.evaluation.answers import answer, hit, question

SCORE = {"score": 1.0, "normalised": 1.0, "weight": 1.0, "contribution": 1.0, "passage_id": "p"}


def _answer(*ids: str, missing: Sequence[tuple[str, str]] = (), **fields: Any) -> Answer:
    """`bm25` has ranked each hit, and `vector` only scored it."""
    hits = [
        hit(rank, id_, branches={"bm25": {**SCORE, "rank": rank}, "vector": {**SCORE, "rank": 0}})
        for rank, id_ in enumerate(ids, 1)
    ]
    return answer(question(**{"hits": hits, **fields}), missing=missing)


def _judge(golden: GoldenQuestion, page: Answer, deep: Answer | None = None) -> Any:
    requests: list[Request] = []

    def ask(request: Request) -> Answer:
        requests.append(request)
        return page if request.top_k == 10 or deep is None else deep

    (verdict,) = judge([golden], ask=ask, namespace="law")
    return verdict, requests


def test_a_question_passes_if_one_of_its_documents_is_among_the_first() -> None:
    verdict, requests = _judge(GoldenQuestion(1, "one", {"e": 1, "z": 1}), _answer(*"abcdefg"))
    assert (verdict.passed, verdict.ranked, verdict.missing) == (True, list("abcdefg"), "")
    (request,) = requests
    assert (request.namespace, request.cache, request.top_k) == ("law", "bypass", 10)


def test_a_failed_question_is_asked_deeper_for_the_ranks_of_its_documents() -> None:
    golden = GoldenQuestion(1, "one", {"f": 1, "m": 1, "z": 1}, "other", {"year": 2020})
    verdict, requests = _judge(golden, _answer(*"abcdefg"), _answer(*"abcdeghijklm"))
    assert not verdict.passed
    # The branch that only scored the document has no rank.
    ranks = [(place.document_id, place.rank, place.branches) for place in verdict.found]
    assert ranks == [("f", 6, {"bm25": 6}), ("m", 12, {"bm25": 12}), ("z", None, {})]
    assert [request.top_k for request in requests] == [10, 100]
    for request in requests:
        assert (request.namespace, request.filters) == ("other", {"year": 2020})


def test_a_copy_is_as_good_as_its_hit() -> None:
    folded = [{"document_id": "copy", "why": "exact_copy"}]
    page = _answer(hits=[hit(1, "a", folded=folded)])
    assert _judge(GoldenQuestion(1, "one", {"copy": 1}), page)[0].passed


def test_a_question_that_nothing_answers_passes_if_the_answer_abstains() -> None:
    golden = GoldenQuestion(1, "who won", {})
    assert _judge(golden, _answer("a", abstained=True, confidence=0.1))[0].passed
    verdict, requests = _judge(golden, _answer("a", confidence=0.8))
    assert (verdict.passed, verdict.confidence, len(requests)) == (False, 0.8, 1)


def test_what_an_answer_lacks_is_named() -> None:
    lacking = _answer("a", missing=[("search.hyde", "timeout")])
    assert _judge(GoldenQuestion(1, "one", {"a": 1}), lacking)[0].missing == "search.hyde timeout"
    verdict, _ = _judge(GoldenQuestion(1, "one", {"a": 1}), answer(status="refused"))
    assert (verdict.passed, verdict.missing) == (False, "refused")


def test_a_question_that_no_request_can_ask_is_named_before_any_is_asked() -> None:
    wrong = GoldenQuestion(3, "two", {"a": 1}, filters={"year": {"near": 1}})
    questions = [GoldenQuestion(1, "one", {"a": 1}), wrong]
    with pytest.raises(WrongGolden, match=r"line 3: .*filters"):
        judge(questions, ask=lambda request: pytest.fail("asked"), namespace="law")


@pytest.mark.parametrize("grades", [{"a": 1}, {"c": 2, "a": 1, "y": 3}, {"y": 1}])
def test_recall_and_ndcg_are_those_of_trec_eval(grades: dict[str, int]) -> None:
    ranked = list("bcadefghijyz")
    each = measure_each({"q": grades}, {"q": ranked})
    assert recall(grades, ranked) == pytest.approx(each["recall@10"]["q"])
    assert ndcg(ranked, grades) == pytest.approx(each["ndcg@10"]["q"])


def test_questions_that_nothing_answers_have_no_part_in_the_figures() -> None:
    verdicts = [
        _judge(GoldenQuestion(1, "one", {"b": 1}), _answer("a", "b"))[0],
        _judge(GoldenQuestion(2, "two", {}), _answer("a", abstained=True))[0],
    ]
    assert figures(verdicts) == {"recall@10": 1.0, "ndcg@10": pytest.approx(0.6309, abs=1e-4)}
    assert figures(verdicts[1:]) == {}
