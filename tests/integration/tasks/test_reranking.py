"""The fusion reranks with a tiny cross-encoder, also where that is slow, hung or broken."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import exp
from pathlib import Path
from typing import Any

import pytest
from chorale_client.answer import Answer, StageLine
from chorale_client.words import QUEUE_FUSION
from pydantic_core import from_json

from inference.reranking.onnx_reranker import OnnxReranker
from tasks.request.ending import SWEEPER
from tasks.worker.warming import warm
from tests.support.models.reranker_faults import FAULT, faulty_rerankers
from tests.support.models.tiny_bert import write_tiny_bert
from tests.support.models.tiny_cross_encoder import write_tiny_cross_encoder
from tests.support.pipelines.one_process import OneProcess
from tests.support.servers.redis_server import RedisServer

PIPELINE = """
default_configuration = "plain"

[stores.local]
kind = "embedded"

[branches.bm25]
kind = "bm25"
group = "lexical"
store = "local"

[rerankers.tiny]
model = "{tiny}"
max_pieces = 32
budget_ms = 10_000 # all hits, also on a busy machine: how many there are follows from the measured time of each
weight = 0.95 # random weights give all pairs much the same score

[rerankers.hurried]
model = "{tiny}"
max_pieces = 32
budget_ms = 500
weight = 0.95

[rerankers.refused]
model = "{embedder}"

[configurations.plain]
method = "rrf"

[configurations.reranked]
method = "rrf"
reranker = "tiny"

[configurations.hurried]
method = "rrf"
reranker = "hurried"

[configurations.refused]
method = "rrf"
reranker = "refused"
"""

QUESTION = "a tree"
CORPUS = {
    f"doc{place}": (
        f"text {place}",
        f"a tree {'date ' * (place % 7)}{'other word ' * (place % 5)}{'question ' * (place % 3)}{place}",
    )
    for place in range(60)
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    (folder / "embedder").mkdir()
    write_tiny_bert(folder / "embedder", architectures=["BertModel"])
    return {"tiny": write_tiny_cross_encoder(folder / "tiny"), "embedder": folder / "embedder"}


@pytest.fixture(scope="module")
def pipeline(models: dict[str, Path]) -> Iterator[OneProcess]:
    file = models["tiny"].parent / "pipeline.toml"
    file.write_text(PIPELINE.format(**models))
    with (
        RedisServer() as server,
        OneProcess(server, pipeline_file=file) as here,
        faulty_rerankers(here.redis),
    ):
        here.index(CORPUS)
        warm(here.app, [QUEUE_FUSION])
        yield here


@pytest.fixture(autouse=True)
def healthy(pipeline: OneProcess) -> Iterator[None]:
    yield
    pipeline.redis.delete(FAULT)


def ask(pipeline: OneProcess, **options: Any) -> Answer:
    asked = {
        "configuration": "reranked",
        "cache": "bypass",
        "top_k": 60,
        "include": ["ids", "texts", "metadata", "explanation"],
    }
    return pipeline.ask(QUESTION, **{**asked, **options})


def rerank_line(answer: Answer) -> StageLine:
    (line,) = [line for line in answer.stages if line.stage == "rerank"]
    return line


def reasons(answer: Answer) -> list[tuple[str, str]]:
    return [(one.where, one.reason) for one in answer.degraded]


def ids(answer: Answer) -> list[str]:
    return [hit.document_id for hit in answer.hits]


@pytest.fixture(scope="module")
def fused(pipeline: OneProcess) -> Answer:
    return ask(pipeline, rerank="off")


def recovered(pipeline: OneProcess, **options: Any) -> Answer:
    """The first answer with all fifty reranked; it may take some requests to learn that the model is fast again."""
    for _ in range(100):
        answer = ask(pipeline, **options)
        if rerank_line(answer).n_out == 50:
            return answer
    raise AssertionError(f"after 100 requests still {rerank_line(answer)}")


def test_fifty_hits_are_ordered_by_the_blend_and_the_other_ten_stay_below(
    pipeline: OneProcess, models: dict[str, Path], fused: Answer
) -> None:
    answer = recovered(pipeline)

    reranker = OnnxReranker(str(models["tiny"]), threads=1, max_pieces=32)
    reranker.warm()
    pairs = [(QUESTION, f"{hit.title}\n{hit.text}") for hit in fused.hits[:50]]
    logits = reranker.score(pairs, limit_s=60).logits
    highest, lowest = fused.hits[0].score, fused.hits[-1].score
    blend = {
        hit.document_id: 0.05 * (hit.score - lowest) / (highest - lowest) + 0.95 / (1 + exp(-(logit or 0)))
        for hit, logit in zip(fused.hits, logits, strict=False)
    }
    assert None not in logits
    assert {hit.document_id: hit.score for hit in answer.hits[:50]} == pytest.approx(blend, abs=1e-4)
    first, second = sorted((logit or 0 for logit in logits), reverse=True)[:2]
    signals = {"rerank": first, "rerank_gap": first - second}
    assert answer.questions[0].signals == pytest.approx(signals, abs=1e-3)
    assert ids(answer)[50:] == ids(fused)[50:]
    assert ids(answer) != ids(fused)
    assert [hit.rerank and hit.rerank.stage for hit in answer.hits] == ["reranked"] * 50 + [
        "coarse_only"
    ] * 10
    scores = [hit.score for hit in answer.hits]
    assert scores == sorted(scores, reverse=True)
    assert {hit.score_kind for hit in answer.hits} == {"rerank"}
    assert (answer.status, answer.degraded) == ("complete", ())
    line = rerank_line(answer)
    assert (line.status, line.n_in, line.n_out, line.detail) == ("ok", 50, 50, None)


def test_without_texts_in_the_answer_it_reranks_all_the_same(pipeline: OneProcess) -> None:
    whole, bare = recovered(pipeline), ask(pipeline, include=["ids"], top_k=5)
    assert ids(bare) == ids(whole)[:5]
    assert {hit.text for hit in bare.hits} == {None}


def test_several_questions_share_the_time(pipeline: OneProcess) -> None:
    recovered(pipeline)
    answer = pipeline.ask(["a tree", "a date"], configuration="reranked", cache="bypass", top_k=3)
    # Both are in more than fifty documents.
    assert (rerank_line(answer).n_in, rerank_line(answer).n_out) == (100, 100)
    assert [{hit.rerank and hit.rerank.stage for hit in one.hits} for one in answer.questions] == [
        {"reranked"},
        {"reranked"},
    ]


def test_rerank_off_keeps_the_fused_order_and_says_that_the_caller_asked_for_it(fused: Answer) -> None:
    line = rerank_line(fused)
    assert (line.status, line.detail) == ("skipped", "rule")
    assert fused.status == "complete"
    assert {hit.score_kind for hit in fused.hits} == {"rrf"}
    assert {hit.rerank for hit in fused.hits} == {None}


def test_rerank_on_without_a_declared_reranker_is_refused_and_names_the_configurations_that_have_one(
    pipeline: OneProcess,
) -> None:
    answer = ask(pipeline, configuration="plain", rerank="on")
    assert (answer.status, reasons(answer)) == ("failed", [("plan", "not_configured")])
    assert "'plain' declares no reranker; there are: reranked, hurried, refused" in answer.degraded[0].detail


def test_a_configuration_without_a_reranker_has_no_rerank_stage(pipeline: OneProcess) -> None:
    answer = ask(pipeline, configuration="plain")
    assert "rerank" not in {line.stage for line in answer.stages}
    assert answer.status == "complete"


def test_a_reranked_answer_is_kept_and_a_fused_one_of_the_same_question_is_another(
    pipeline: OneProcess,
) -> None:
    recovered(pipeline)
    options = {"cache": "use", "top_k": 7}
    first, second = ask(pipeline, **options), ask(pipeline, **options)
    assert (first.cached, second.cached) == (False, True)
    assert ids(first) == ids(second)
    # `on` asks for what happens anyway; `off` for something else.
    assert ask(pipeline, **options, rerank="on").cached
    assert not ask(pipeline, **options, rerank="off").cached


@pytest.mark.slow
def test_a_reranker_slowed_ten_times_ranks_a_few_hits_and_fifty_again_once_it_recovers(
    pipeline: OneProcess,
) -> None:
    recovered(pipeline, configuration="hurried")
    pipeline.redis.set(FAULT, "slow:0.1")
    answers = [ask(pipeline, configuration="hurried") for _ in range(12)][6:]
    # Four fifths of half a second at .1 s a pair: four, and never none.
    counts = [rerank_line(answer).n_out or 0 for answer in answers]
    assert all(1 <= count <= 5 for count in counts), counts
    # On a machine that is busy besides, one or the other may still be cut by the clock.
    settled = [answer for answer in answers if rerank_line(answer).detail == "adaptive"]
    assert {(answer.status, answer.degraded, rerank_line(answer).status) for answer in settled} == {
        ("complete", (), "ok")
    }
    few = rerank_line(settled[-1]).n_out or 0
    stages = [hit.rerank and hit.rerank.stage for hit in settled[-1].hits]
    assert stages == ["reranked"] * few + ["coarse_only"] * (60 - few)

    pipeline.redis.delete(FAULT)
    assert recovered(pipeline, configuration="hurried").status == "complete"


@pytest.mark.slow
def test_a_page_reranked_in_part_for_lack_of_time_is_not_cached_and_a_whole_one_is(
    pipeline: OneProcess,
) -> None:
    hurried = {"configuration": "hurried"}
    recovered(pipeline, **hurried)
    pipeline.redis.set(FAULT, "slow:0.1")

    def slowed(top_k: int) -> Answer:
        found = (ask(pipeline, cache="use", top_k=top_k, **hurried) for _ in range(30))
        return next(one for one in found if one.cached or rerank_line(one).detail == "adaptive")

    # Four fifths of half a second at .1 s a pair: four, and never none.
    assert not slowed(20).cached
    first_alone = next(one for _ in range(100) if (one := slowed(1)).cached)
    assert [hit.rerank and hit.rerank.stage for hit in first_alone.hits] == ["reranked"]
    # By the one process of the fusion, before the other.
    assert not slowed(20).cached

    pipeline.redis.delete(FAULT)
    recovered(pipeline, **hurried)
    # Beyond the depth of fifty none is ever reranked.
    deep = next(one for _ in range(100) if (one := ask(pipeline, cache="use", top_k=59, **hurried)).cached)
    stages = [hit.rerank and hit.rerank.stage for hit in deep.hits]
    assert stages == ["reranked"] * 50 + ["coarse_only"] * 9


@pytest.mark.parametrize(("fault", "reason"), [("raise", "error"), ("nan", "invalid_answer")])
def test_a_reranker_that_fails_costs_the_reranked_order_alone(
    pipeline: OneProcess, fused: Answer, fault: str, reason: str
) -> None:
    pipeline.redis.set(FAULT, fault)
    answer = ask(pipeline, cache="use")
    assert ids(answer) == ids(fused)
    assert [hit.score for hit in answer.hits] == [hit.score for hit in fused.hits]
    assert (answer.status, reasons(answer)) == ("degraded", [("rerank", reason)])
    assert {hit.rerank.stage for hit in answer.hits[:50] if hit.rerank} == {"coarse_fallback"}
    assert rerank_line(answer).status == "failed"
    assert not ask(pipeline, cache="use").cached, "a degraded answer is not kept"


def test_a_reranker_that_hangs_costs_its_budget_and_the_next_request_does_not_wait_for_it(
    pipeline: OneProcess, fused: Answer
) -> None:
    pipeline.redis.set(FAULT, "hang:2.5")
    first, second = (ask(pipeline, configuration="hurried") for _ in range(2))
    pipeline.redis.delete(FAULT)
    assert [reasons(first), reasons(second)] == [[("rerank", "timeout")], [("rerank", "not_started")]]
    assert ids(first) == ids(second) == ids(fused)


def test_a_model_that_is_no_cross_encoder_is_refused_and_the_fused_order_is_kept(
    pipeline: OneProcess, fused: Answer
) -> None:
    answer = ask(pipeline, configuration="refused")
    assert answer.status == "degraded"
    assert reasons(answer) == [("rerank", "not_configured")]
    assert "is BertModel, not a reranker" in answer.degraded[0].detail
    assert ids(answer) == ids(fused)


def test_the_sweeper_answers_in_the_fused_order(pipeline: OneProcess, fused: Answer) -> None:
    request_id = pipeline.submit(QUESTION, configuration="reranked", cache="bypass", top_k=5)
    pipeline.work("chorale.bm25")
    answer = pipeline.end_late(request_id, by=SWEEPER)
    assert ids(answer) == ids(fused)[:5]
    assert ("rerank", "not_started") in reasons(answer)
    assert [hit.rerank and hit.rerank.stage for hit in answer.hits] == ["coarse_fallback"] * 5


def test_the_outbox_entry_has_the_rerank_scores_and_the_models_mark(pipeline: OneProcess) -> None:
    recovered(pipeline)
    answer = ask(pipeline, top_k=2)
    kept: Any = pipeline.redis.xrange("chorale:outbox")
    entries = [{key.decode(): value for key, value in fields.items()} for _, fields in kept]
    (entry,) = [one for one in entries if from_json(one["request"])["request_id"] == answer.request_id]
    assert from_json(entry["plan"])["models"].keys() >= {"embedder", "reranker"}
    hits = from_json(entry["answer"])["questions"][0]["hits"]
    assert [hit["rerank"]["score"] for hit in hits] == [
        hit.rerank and hit.rerank.score for hit in answer.hits
    ]


def test_a_threshold_of_the_reranker_removes_what_is_below_and_what_was_not_reached(
    pipeline: OneProcess,
) -> None:
    scores = {
        hit.document_id: hit.rerank.score
        for hit in recovered(pipeline).hits
        if hit.rerank and hit.rerank.score is not None
    }
    # In the widest gap, since the same pairs may get slightly different scores in other batches.
    gaps = [(upper - lower, (lower + upper) / 2) for lower, upper in pairwise(sorted(scores.values()))]
    lowest = max(gaps)[1]
    answer = recovered(pipeline, thresholds={"min_rerank_score": lowest})
    assert set(ids(answer)) == {name for name, score in scores.items() if score >= lowest}
    assert answer.questions[0].removed == {"min_rerank_score": 60 - len(answer.hits)}


def test_the_page_is_chosen_after_reranking_and_its_texts_are_there(pipeline: OneProcess) -> None:
    reranked = recovered(pipeline)
    page = recovered(pipeline, diversity=0.2, offset=45, top_k=15, context_tokens=100)
    assert page.status == "complete"
    assert page.questions[0].ordered_by == "mmr"
    assert [hit.rank for hit in page.hits] == list(range(46, 61))
    # Only the best fifty were compared.
    assert ids(page)[5:] == ids(reranked)[50:]
    assert all(hit.text for hit in page.hits)
    context = page.questions[0].context
    assert context is not None
    assert 0 < context.tokens <= 100
    assert all(46 <= rank <= 60 for one in context.citations for rank in one.ranks)
