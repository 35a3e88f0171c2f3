"""The fusion reranks with a tiny cross-encoder, also where that is slow, hung or broken."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp
from pathlib import Path
from typing import Any

import pytest
from chorale_client.answer import Answer, StageLine
from chorale_client.wire_names import QUEUE_FUSION, QUEUE_RETRIEVE

from inference.pair_reranker import PairReranker
from inference.rerankers import OnnxReranker
from models.errors import NotConfigured
from tasks.request.composing.ending import SWEEPER
from tasks.worker.warming import warm
from tests.integration.tasks.answers import ids, reasons
from tests.support.models.reranker_faults import FAULT, faulty_rerankers
from tests.support.models.tiny_cross_encoder import write_tiny_cross_encoder
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline_files import LOCAL, branch
from tests.support.servers.redis_server import RedisServer

RERANKER = """
[rerankers.{name}]
model = "{model}"
max_pieces = 32
budget_ms = {budget_ms}
weight = 0.95 # random weights give all pairs much the same score
[configurations.{configuration}]
method = "rrf"
reranker = "{name}"
"""
PLAIN = '[configurations.plain]\nmethod = "rrf"\n'

QUESTION = "a tree"
LACKING = "bert.encoder.layer.0.output.dense.bias"
CORPUS = {
    f"doc{place}": (
        f"text {place}",
        f"a tree {'date ' * (place % 7)}{'other word ' * (place % 5)}{'question ' * (place % 3)}{place}",
    )
    for place in range(60)
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_cross_encoder(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def pipeline(model: Path) -> Iterator[OneProcess]:
    file = model.parent / "pipeline.toml"
    # All hits, also on a busy machine: how many there are follows from the measured time of each.
    tiny = RERANKER.format(name="tiny", configuration="reranked", model=model, budget_ms=10_000)
    hurried = RERANKER.format(name="hurried", configuration="hurried", model=model, budget_ms=500)
    # The hub never answers, and a worker starts all the same.
    hub = RERANKER.format(name="hub", configuration="hub", model="acme/never-fetched", budget_ms=500)
    half = write_tiny_cross_encoder(model.parent / "half", without=LACKING)
    partial = RERANKER.format(name="partial", configuration="partial", model=half, budget_ms=500)
    tables = [LOCAL, branch("bm25"), PLAIN, tiny, hurried, hub, partial]
    file.write_text('default_configuration = "plain"\n' + "".join(tables))

    def fetch(_: PairReranker) -> None:
        raise NotConfigured("nobody fetches a model here")

    with (
        RedisServer() as server,
        pytest.MonkeyPatch.context() as patch,
        OneProcess(server, pipeline_file=file) as here,
        faulty_rerankers(here.redis),
    ):
        patch.setattr(PairReranker, "fetch", fetch)
        here.index(CORPUS)
        (missing,) = warm(here.app, [QUEUE_RETRIEVE, QUEUE_FUSION])
        assert missing.startswith("no model acme/never-fetched")
        yield here


@pytest.fixture(autouse=True)
def healthy(pipeline: OneProcess) -> Iterator[None]:
    yield
    pipeline.redis.delete(FAULT)


def ask(pipeline: OneProcess, **options: Any) -> Answer:
    include = ["ids", "texts", "metadata", "explanation"]
    usual = {"configuration": "reranked", "cache": "bypass", "top_k": 60, "include": include}
    return pipeline.ask(QUESTION, **{**usual, **options})


def rerank_line(answer: Answer) -> StageLine:
    (line,) = [line for line in answer.stages if line.stage == "rerank"]
    return line


def stages_of(answer: Answer) -> list[str | None]:
    """What the reranking did to each hit."""
    return [hit.rerank.stage if hit.rerank else None for hit in answer.hits]


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
    pipeline: OneProcess, model: Path, fused: Answer
) -> None:
    answer = recovered(pipeline)

    reranker = OnnxReranker(str(model), threads=1, max_pieces=32)
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
    assert stages_of(answer) == ["reranked"] * 50 + ["coarse_only"] * 10
    scores = [hit.score for hit in answer.hits]
    assert scores == sorted(scores, reverse=True)
    assert {hit.score_kind for hit in answer.hits} == {"rerank"}
    assert (answer.status, answer.degraded) == ("complete", ())
    line = rerank_line(answer)
    assert (line.status, line.n_in, line.n_out, line.detail) == ("ok", 50, 50, None)


def test_without_a_rerank_the_fused_order_stands_and_is_complete(pipeline: OneProcess, fused: Answer) -> None:
    line = rerank_line(fused)
    assert (fused.status, line.status, line.detail) == ("complete", "skipped", "rule"), (
        "the caller asked for it"
    )
    assert {hit.score_kind for hit in fused.hits} == {"rrf"}
    assert set(stages_of(fused)) == {None}
    answer = ask(pipeline, configuration="plain")
    assert (answer.status, ids(answer)) == ("complete", ids(fused))
    assert "rerank" not in {line.stage for line in answer.stages}


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
def test_a_page_reranked_in_part_for_lack_of_time_is_not_cached_and_a_whole_one_is(
    pipeline: OneProcess,
) -> None:
    hurried = {"configuration": "hurried"}
    recovered(pipeline, **hurried)
    pipeline.redis.set(FAULT, "slow:0.1")

    def slowed(top_k: int) -> Answer:
        answers = (ask(pipeline, cache="use", top_k=top_k, **hurried) for _ in range(30))
        # On a machine that is busy besides, one or the other is cut by the clock.
        answer = next(one for one in answers if one.cached or rerank_line(one).detail == "adaptive")
        assert (answer.cached, answer.status, reasons(answer)) == (
            False,
            "degraded",
            [("rerank", "adaptive")],
        )
        return answer

    # Four fifths of half a second at .1 s a pair: four of fifty, and never none.
    for top_k in (20, 1, 1):
        assert stages_of(slowed(top_k))[0] == "reranked"

    pipeline.redis.delete(FAULT)
    recovered(pipeline, **hurried)
    # Beyond the depth of fifty none is ever reranked.
    deep = next(one for _ in range(100) if (one := ask(pipeline, cache="use", top_k=59, **hurried)).cached)
    assert stages_of(deep) == ["reranked"] * 50 + ["coarse_only"] * 9


@pytest.mark.parametrize(("fault", "reason"), [("raise", "error"), ("nan", "invalid_answer")])
def test_a_reranker_that_fails_costs_the_reranked_order_alone(
    pipeline: OneProcess, fused: Answer, fault: str, reason: str
) -> None:
    pipeline.redis.set(FAULT, fault)
    answer = ask(pipeline, cache="use")
    assert ids(answer) == ids(fused)
    assert [hit.score for hit in answer.hits] == [hit.score for hit in fused.hits]
    assert (answer.status, reasons(answer)) == ("degraded", [("rerank", reason)])
    assert set(stages_of(answer)[:50]) == {"coarse_fallback"}
    assert rerank_line(answer).status == "failed"
    assert not ask(pipeline, cache="use").cached, "a degraded answer is not kept"


@pytest.mark.parametrize(
    ("name", "reason", "detail"),
    [
        ("hub", "model_missing", "nor downloaded from the Hugging Face hub yet"),
        ("partial", "not_configured", f"lacks {LACKING}"),
    ],
)
def test_a_reranker_that_does_not_load_leaves_the_fused_order_and_the_answer_says_why(
    pipeline: OneProcess, fused: Answer, name: str, reason: str, detail: str
) -> None:
    answer = ask(pipeline, configuration=name)
    assert (reasons(answer), ids(answer)) == ([("rerank", reason)], ids(fused))
    assert detail in answer.degraded[0].detail


def test_a_reranker_that_hangs_costs_its_budget_and_the_next_request_does_not_wait_for_it(
    pipeline: OneProcess, fused: Answer
) -> None:
    pipeline.redis.set(FAULT, "hang")
    first, second = (ask(pipeline, configuration="hurried") for _ in range(2))
    pipeline.redis.delete(FAULT)
    assert [reasons(first), reasons(second)] == [[("rerank", "timeout")], [("rerank", "not_started")]]
    assert ids(first) == ids(second) == ids(fused)


def test_the_sweeper_answers_in_the_fused_order(pipeline: OneProcess, fused: Answer) -> None:
    request_id = pipeline.submit(QUESTION, configuration="reranked", cache="bypass", top_k=5)
    pipeline.work("chorale.bm25")
    answer = pipeline.end_late(request_id, by=SWEEPER)
    assert ids(answer) == ids(fused)[:5]
    assert ("rerank", "not_started") in reasons(answer)
    assert stages_of(answer) == ["coarse_fallback"] * 5
