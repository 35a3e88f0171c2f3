"""The runs of an evaluation, their requests, and the figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chorale_client.answer import QuestionAnswer

from evaluation.judged.collection import Collection
from evaluation.judged.run import (
    QUESTIONS_A_REQUEST,
    Evaluation,
    Run,
    evaluate,
    ranked_documents,
    request_of,
    runs_of,
)
from tasks.wiring.pipeline import load_pipeline
from tests.support.pipelines.pipeline_files import Declares
from tests.unit.evaluation.answers import Service, hit, question

JUDGED = {"q1": {"a": 1}, "q2": {"b": 1}}
COLLECTION = Collection("tiny", Path("corpus.jsonl"), {"q1": "one", "q2": "two"}, JUDGED)
RUN = Run("rrf", "rrf", ("bm25", "vector"))
ALONE = {"bm25": 1.0}


def evaluated(ask: Service, *runs: Run, **options: Any) -> Evaluation:
    return evaluate(**{"collection": COLLECTION, "documents": 7, **options}, runs=runs or [RUN], ask=ask)


def test_methods_that_the_caller_names_run_with_the_branches_of_the_default_configuration() -> None:
    *_, run = runs_of(load_pipeline(), ["tm2c2"])
    assert run == Run("fusion=tm2c2", "rrf", ("bm25", "vector", "hyde"), fusion="tm2c2")
    request = request_of(run, "eval-tiny", ["one"])
    assert (request.configuration, request.fusion, request.rerank) == ("rrf", "tm2c2", "off")


RERANKING = """
stores.local.kind = "embedded"
branches.bm25 = { kind = "bm25", group = "lexical", store = "local" }
branches.vector = { kind = "vector", group = "dense", store = "local" }
rerankers.small.model = "some/model"
[configurations]
best = { method = "rrf", reranker = "small" }
plain = { method = "rrf" }
boosted = { method = "rrf", boosts = "italian-law" }
unfolded = { method = "rrf", fold = false }
windowed = { method = "rrf", rank_window_size = 10 }
one = { method = "rrf", branches = ["bm25"], reranker = "small" }
baseline = { method = "rrf", branches = ["bm25"] }
"""


def test_a_configuration_that_differs_only_in_reranker_folding_or_window_is_a_run(declares: Declares) -> None:
    runs = runs_of(declares(RERANKING))
    # Without its boosts `boosted` is `plain`, and `baseline` is the branch.
    names = ["bm25", "vector", "best", "plain", "unfolded", "windowed", "one"]
    assert [run.name for run in runs] == names
    assert [run.configuration for run in runs] == ["best", "best", *names[2:]]
    assert [run.name for run in runs if run.is_reranked] == ["best", "one"]


def test_a_reranker_works_only_in_its_own_run_with_the_whole_budget_for_each_question() -> None:
    ask = Service(question("a"))
    evaluated(ask, Run("bm25", "best", ("bm25",), ALONE), Run("best", "best", ("bm25",), is_reranked=True))
    texts = [(request.rerank, [question.text for question in request.questions]) for request in ask.requests]
    assert texts == [("off", ["one", "two"]), (None, ["one"]), (None, ["two"])]


def test_the_figures_of_each_run_are_computed_from_its_answers() -> None:
    evaluation = evaluated(Service(question("a"), question("x", "b")))
    assert evaluation.figures["rrf"]["mrr@10"] == pytest.approx((1 + 1 / 2) / 2)
    assert not evaluation.faults
    wire = evaluation.to_wire()
    assert (wire["collection"], wire["documents"], wire["questions"]) == ("tiny", 7, 2)
    figures = {"ndcg@10": 0.8155, "recall@10": 1.0, "recall@100": 1.0, "mrr@10": 0.75}
    assert wire["runs"] == [{"name": "rrf", **figures}]


def test_the_median_of_a_branchs_best_scores_is_reported() -> None:
    """A configuration declares it as `halves` for the method `bounded`."""
    shares = {"rank": 1, "normalised": 1.0, "weight": 1.0, "contribution": 1.0, "passage_id": "p"}
    questions = [
        question(hits=[hit(1, id_, branches={"bm25": {**shares, "score": score}})])
        for id_, score in {"a": 12.0, "b": 20.0}.items()
    ]
    evaluation = evaluated(Service(*questions), Run("bm25", "rrf", ("bm25",), ALONE), RUN)
    assert evaluation.to_wire()["best_scores"] == {"bm25": 16.0}


def test_cache_boosts_and_thresholds_are_off() -> None:
    ask = Service(question("a"), question("b"))
    evaluated(ask)
    (request,) = ask.requests
    assert (request.cache, request.boosts, request.top_k, request.depth) == ("bypass", "off", 100, 200)
    assert (request.namespace, request.configuration) == ("eval-tiny", "rrf")
    assert request.branches == ("bm25", "vector")


def test_incomplete_answers_are_counted_with_their_reason() -> None:
    ask = Service(question("a", status="degraded"), missing=[("search.vector", "timeout")])
    assert evaluated(ask).faults == {"rrf: search.vector timeout": 2}


def test_many_questions_are_several_requests_and_each_is_asked_once() -> None:
    ids = [f"q{n}" for n in range(2 * QUESTIONS_A_REQUEST + 1)]
    collection = Collection("many", Path(), {id_: id_ for id_ in ids}, {id_: {"a": 1} for id_ in ids})
    seen: list[int] = []
    ask = Service(question("a"))
    evaluation = evaluated(ask, collection=collection, progress=lambda _, count: seen.append(count))
    assert [len(request.questions) for request in ask.requests] == seen
    assert seen == [QUESTIONS_A_REQUEST, QUESTIONS_A_REQUEST, 1]
    assert evaluation.figures["rrf"]["recall@10"] == 1


def test_a_folded_copy_counts_directly_after_its_hit() -> None:
    folded = [{"document_id": "copy", "why": "exact_copy"}]
    hits = [hit(1, "a", folded=folded), hit(2, "b")]
    answered = QuestionAnswer.model_validate({"status": "complete", "hits": hits})
    assert ranked_documents(answered) == ["a", "copy", "b"]
