"""The runs of an evaluation, their requests, and the figures."""

from __future__ import annotations

from pathlib import Path

import pytest
from chorale_client.answer import Answer, BranchScore, QuestionAnswer
from chorale_client.request import Request

from assembly.pipeline import load_pipeline
from evaluation.collection import Collection
from evaluation.run import QUESTIONS_A_REQUEST, Run, evaluate, ranked_documents, request_of, runs_of
from tests.unit.evaluation.answers import answer, hit, question

COLLECTION = Collection(
    "tiny", Path("corpus.jsonl"), {"q1": "one", "q2": "two"}, {"q1": {"a": 1}, "q2": {"b": 1}}
)
RUN = Run("rrf", "rrf", ("bm25", "vector"))


def test_each_branch_and_each_configuration_that_ranks_differently_is_a_run() -> None:
    runs = runs_of(load_pipeline())
    assert [run.name for run in runs] == ["bm25", "vector", "hyde", "rrf", "scores", "rrf-grouped", "rrf-two"]
    assert [run.branches for run in runs[:3]] == [("bm25",), ("vector",), ("hyde",)]
    assert runs[-1].branches == ("bm25", "vector")


def test_methods_that_the_caller_names_run_with_the_branches_of_the_default_configuration() -> None:
    *_, run = runs_of(load_pipeline(), ["tm2c2"])
    assert run == Run("fusion=tm2c2", "rrf", ("bm25", "vector", "hyde"), fusion="tm2c2")
    request = request_of(run, "eval-tiny", ["one"])
    assert (request.configuration, request.fusion, request.rerank) == ("rrf", "tm2c2", "off")


RERANKING = """
[stores.local]
kind = "embedded"
[branches.bm25]
kind = "bm25"
group = "lexical"
store = "local"
[branches.vector]
kind = "vector"
group = "dense"
store = "local"
[rerankers.small]
model = "some/model"
[configurations.best]
method = "rrf"
reranker = "small"
[configurations.plain]
method = "rrf"
[configurations.boosted]
method = "rrf"
boosts = "italian-law"
[configurations.unfolded]
method = "rrf"
fold = false
[configurations.windowed]
method = "rrf"
rank_window_size = 10
[configurations.one]
method = "rrf"
branches = ["bm25"]
reranker = "small"
[configurations.baseline]
method = "rrf"
branches = ["bm25"]
"""


def test_a_configuration_that_differs_only_in_reranker_folding_or_window_is_a_run(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(RERANKING)
    runs = runs_of(load_pipeline(file))
    # Without its boosts `boosted` is `plain`, and `baseline` is the branch.
    assert [(run.name, run.configuration, run.is_reranked) for run in runs] == [
        ("bm25", "best", False),
        ("vector", "best", False),
        ("best", "best", True),
        ("plain", "plain", False),
        ("unfolded", "unfolded", False),
        ("windowed", "windowed", False),
        ("one", "one", True),
    ]


def test_a_reranker_works_only_in_its_own_run_with_the_whole_budget_for_each_question() -> None:
    asked: list[Request] = []

    def ask(request: Request) -> Answer:
        asked.append(request)
        return answer(*(question("a") for _ in request.questions))

    runs = [Run("bm25", "best", ("bm25",), {"bm25": 1.0}), Run("best", "best", ("bm25",), is_reranked=True)]
    evaluate(COLLECTION, runs=runs, documents=0, ask=ask)
    assert [(request.rerank, [one.text for one in request.questions]) for request in asked] == [
        ("off", ["one", "two"]),
        (None, ["one"]),
        (None, ["two"]),
    ]


def test_the_figures_of_each_run_are_computed_from_its_answers() -> None:
    found = evaluate(
        COLLECTION, runs=[RUN], documents=7, ask=lambda request: answer(question("a"), question("x", "b"))
    )
    assert found.figures["rrf"]["mrr@10"] == pytest.approx((1 + 1 / 2) / 2)
    assert not found.faults
    wire = found.to_wire()
    assert (wire["collection"], wire["documents"], wire["questions"]) == ("tiny", 7, 2)
    assert wire["runs"] == [
        {"name": "rrf", "ndcg@10": 0.8155, "recall@10": 1.0, "recall@100": 1.0, "mrr@10": 0.75}
    ]


def test_the_median_of_a_branchs_best_scores_is_told() -> None:
    """A configuration declares it as `halves` for the method `bounded`."""

    def ask(request: Request) -> Answer:
        found = answer(question("a"), question("b"))
        for one, score in zip(found.questions, (12.0, 20.0), strict=True):
            one.hits[0].branches["bm25"] = BranchScore(
                rank=1, score=score, normalised=1.0, weight=1.0, contribution=1.0, passage_id="p"
            )
        return found

    alone = Run("bm25", "rrf", ("bm25",), {"bm25": 1.0})
    found = evaluate(COLLECTION, runs=[alone, RUN], documents=0, ask=ask)
    assert found.to_wire()["best_scores"] == {"bm25": 16.0}


def test_cache_boosts_and_thresholds_are_off() -> None:
    asked: list[Request] = []

    def ask(request: Request) -> Answer:
        asked.append(request)
        return answer(question("a"), question("b"))

    evaluate(COLLECTION, runs=[RUN], documents=0, ask=ask)
    (request,) = asked
    assert (request.cache, request.boosts, request.top_k, request.depth) == ("bypass", "off", 100, 100)
    assert (request.namespace, request.configuration, request.branches) == (
        "eval-tiny",
        "rrf",
        ("bm25", "vector"),
    )


def test_incomplete_answers_are_counted_with_their_reason() -> None:
    found = evaluate(
        COLLECTION,
        runs=[RUN],
        documents=0,
        ask=lambda request: answer(
            *(question(id_, status="degraded") for id_ in "ab"), missing=[("search.vector", "timeout")]
        ),
    )
    assert found.faults == {"rrf: search.vector timeout": 2}


def test_many_questions_are_several_requests_and_each_is_asked_once() -> None:
    count = 2 * QUESTIONS_A_REQUEST + 1
    ids = [f"q{n}" for n in range(count)]
    collection = Collection("many", Path(), {id_: id_ for id_ in ids}, {id_: {"a": 1} for id_ in ids})
    sizes: list[int] = []
    seen: list[int] = []

    def ask(request: Request) -> Answer:
        sizes.append(len(request.questions))
        return answer(*(question("a") for _ in request.questions))

    found = evaluate(
        collection, runs=[RUN], documents=0, ask=ask, progress=lambda _, asked: seen.append(asked)
    )
    assert sizes == seen == [QUESTIONS_A_REQUEST, QUESTIONS_A_REQUEST, 1]
    assert found.figures["rrf"]["recall@10"] == 1


def test_a_folded_copy_counts_directly_after_its_hit() -> None:
    folded = [{"document_id": "copy", "why": "exact_copy"}]
    asked = QuestionAnswer.model_validate(
        {"status": "complete", "hits": [hit(1, "a", folded=folded), hit(2, "b")]}
    )
    assert ranked_documents(asked) == ["a", "copy", "b"]
