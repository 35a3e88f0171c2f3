"""The two-stage retriever: a coarse search, then a cross-encoder on the best hits, and the vectors alone to compare with.

Serving without the reranker's model by HTTP stands in `tests/acceptance/installations/test_up.py`, the choice of a device in
`tests/unit/inference/test_onnx_devices.py`, an encoder of its own for a namespace in `tests/integration/tasks/test_encoders.py`; what answers
cost and find, in `docs/evidence`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from math import exp
from pathlib import Path
from typing import Any

import pytest
from chorale_client import Answer
from chorale_client.answer import StageLine
from chorale_client.wire_names import QUEUE_FUSION

from docs.evidence.reranked import write_cross_encoder
from inference.embedders import OnnxEmbedder
from inference.pair_reranker import PairReranker
from inference.rerankers import OnnxReranker
from models.errors import ModelMissing, NotConfigured
from tasks.worker.warming import warm_models
from tests.support.models.reranker_faults import FAULT, faulty_rerankers
from tests.support.models.tiny_bert import write_tiny_bert
from tests.support.models.tiny_cross_encoder import write_tiny_cross_encoder
from tests.support.pipelines.one_process import OneProcess
from tests.support.servers.http_api import HttpApi

ROOT = Path(__file__).parents[3]
RERANKER = """
[rerankers.{name}]
model = "{model}"
max_pieces = 32
budget_ms = {budget_ms}
[configurations.{name}]
method = "rrf"
reranker = "{name}"
"""
QUERY = "a tree"
EXPLAINED = ["ids", "metadata", "explanation"]
DOCUMENTS = {
    f"note{place}": (
        f"Note {place}",
        f"a tree {'date ' * (place % 7)}{'other word ' * (place % 5)}{'text ' * (place % 3)}{place}",
    )
    for place in range(60)
}


@pytest.fixture(scope="module")
def retriever(here: OneProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneProcess]:
    """The shipped pipeline with rerankers: all hits in time, few in time, one without a model, and an encoder."""
    folder = tmp_path_factory.mktemp("two-stage")
    model = write_tiny_cross_encoder(folder / "tiny")
    (folder / "encoder").mkdir()
    write_tiny_bert(folder / "encoder")
    declared = [
        RERANKER.format(name="two-stage", model=model, budget_ms=10_000),
        RERANKER.format(name="hurried", model=model, budget_ms=400),
        RERANKER.format(name="gone", model="/no/such/model", budget_ms=400),
        RERANKER.format(name="bge", model=folder / "encoder", budget_ms=400),
    ]
    file = folder / "pipeline.toml"
    file.write_text((ROOT / "config" / "pipeline.toml").read_text() + "".join(declared))
    settings = {"CHORALE_HOME": str(here.home)}
    with OneProcess(here.server, pipeline_file=file, environment=settings) as pipeline:
        for agent, remainder in (("gardener", 0), ("forester", 1)):
            texts = {name: text for at, (name, text) in enumerate(DOCUMENTS.items()) if at % 2 == remainder}
            pipeline.index(texts, namespace="notes", agent=agent)
        with faulty_rerankers(pipeline.redis):
            for name in ("two-stage", "hurried"):
                reranker = pipeline.resources.reranker(name)
                assert isinstance(reranker, PairReranker)
                reranker.warm()
            yield pipeline
            pipeline.redis.delete(FAULT)


def retrieve(pipeline: OneProcess, query: str = QUERY, **options: Any) -> Answer:
    usual = {"namespace": "notes", "configuration": "two-stage", "cache": "bypass", "include": EXPLAINED}
    return pipeline.ask(query, **{**usual, **options})


def rerank_line(answer: Answer) -> StageLine:
    [line] = [line for line in answer.stages if line.stage == "rerank"]
    return line


def ids(answer: Answer) -> list[str]:
    return [hit.document_id for hit in answer.hits]


def stages(answer: Answer) -> list[str | None]:
    return [hit.rerank.stage if hit.rerank else None for hit in answer.hits]


def test_the_coarse_search_finds_and_the_cross_encoder_orders_the_best_fifty_of_a_hundred(
    retriever: OneProcess,
) -> None:
    """All 60 documents are among the 100 of the coarse search; the last ten stay below, in its order."""
    coarse = retrieve(retriever, rerank="off", top_k=60)
    answer = retrieve(retriever, top_k=60)
    line = rerank_line(answer)
    assert (answer.status, line.status, line.n_in, line.n_out) == ("complete", "ok", 50, 50)
    assert stages(answer) == ["reranked"] * 50 + ["coarse_only"] * 10
    assert set(ids(answer)[:50]) == set(ids(coarse)[:50])
    assert ids(answer)[50:] == ids(coarse)[50:]
    assert ids(answer) != ids(coarse)


def test_a_score_is_three_tenths_coarse_and_seven_tenths_reranked_between_0_and_1_and_sorted(
    retriever: OneProcess,
) -> None:
    answer = retrieve(retriever, top_k=60)
    fused = {hit.document_id: hit.rerank.fused_score or 0.0 for hit in answer.hits if hit.rerank}
    low, high = min(fused.values()), max(fused.values())
    for hit in answer.hits[:50]:
        assert hit.rerank is not None
        assert hit.rerank.score is not None
        by_hand = 0.3 * (fused[hit.document_id] - low) / (high - low) + 0.7 * hit.rerank.score
        assert hit.score == pytest.approx(by_hand, abs=1e-6)
    scores = [hit.score for hit in answer.hits]
    assert scores == sorted(scores, reverse=True)
    assert 0 <= scores[-1] <= scores[0] <= 1
    # The score of the cross-encoder is the sigmoid of its logit.
    logit = answer.questions[0].signals["rerank"]
    best = max(hit.rerank.score for hit in answer.hits if hit.rerank and hit.rerank.score is not None)
    assert best == pytest.approx(1 / (1 + exp(-logit)), abs=1e-6)


def test_coarse_top_k_and_rerank_top_k_are_chosen_by_request(retriever: OneProcess) -> None:
    answer = retrieve(retriever, depth=20, rerank_depth=8, top_k=10)
    found = {line.stage: line.n_out for line in answer.stages}
    assert (found["search.bm25"], found["search.vector"]) == (20, 20)
    line = rerank_line(answer)
    assert (line.n_in, line.n_out) == (8, 8)
    assert stages(answer) == ["reranked"] * 8 + ["coarse_only"] * 2


def test_use_reranking_is_chosen_by_request(retriever: OneProcess) -> None:
    off = retrieve(retriever, rerank="off")
    assert (off.status, {hit.score_kind for hit in off.hits}) == ("complete", {"rrf"})
    assert {hit.score_kind for hit in retrieve(retriever, rerank="on").hits} == {"rerank"}
    without = retrieve(retriever, rerank="on", configuration="scores")
    assert without.status == "failed"
    assert "declares no reranker; there are: two-stage, hurried" in without.degraded[0].detail


def test_an_exception_of_the_reranker_leaves_the_coarse_order(retriever: OneProcess) -> None:
    coarse = retrieve(retriever, rerank="off")
    for fault, reason in (("raise", "error"), ("nan", "invalid_answer")):
        retriever.redis.set(FAULT, fault)
        answer = retrieve(retriever)
        retriever.redis.delete(FAULT)
        assert [(part.where, part.reason) for part in answer.degraded] == [("rerank", reason)]
        assert (ids(answer), stages(answer)) == (ids(coarse), ["coarse_fallback"] * 5)


@pytest.mark.parametrize(("name", "reason"), [("gone", "model_missing"), ("bge", "not_configured")])
def test_a_model_that_does_not_load_leaves_the_coarse_order(
    retriever: OneProcess, name: str, reason: str
) -> None:
    """`bge` is an encoder, as BAAI/bge-large-en-v1.5 is, and no cross-encoder."""
    with pytest.raises((ModelMissing, NotConfigured)):
        retriever.resources.reranker(name).warm()
    answer = retrieve(retriever, configuration=name)
    assert (answer.status, ids(answer)) == ("degraded", ids(retrieve(retriever, rerank="off")))
    assert [(part.where, part.reason) for part in answer.degraded] == [("rerank", reason)]


def test_a_slow_reranker_scores_fewer_candidates(retriever: OneProcess) -> None:
    """It takes a second for 20 pairs, and has less than half of one."""
    retriever.redis.set(FAULT, "slow:0.05")
    try:
        # The first requests learn how slow it is.
        answers = [retrieve(retriever, configuration="hurried") for _ in range(6)]
    finally:
        retriever.redis.delete(FAULT)
    lines = [rerank_line(answer) for answer in answers]
    assert all(line.n_in == 50 and (line.n_out or 0) < 10 for line in lines)
    assert any(line.n_out for line in lines)
    assert {(answer.status, answer.degraded[0].where) for answer in answers} == {("degraded", "rerank")}
    assert {stages(answer)[0] for answer, line in zip(answers, lines, strict=True) if line.n_out} == {
        "reranked"
    }


def test_a_reranker_that_no_worker_needs_is_not_loaded(
    retriever: OneProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmed: list[str] = []
    monkeypatch.setattr(PairReranker, "warm", lambda reranker: warmed.append(reranker.name))
    warm_models(retriever.resources, ["chorale.bm25", "chorale.vector"])
    assert warmed == []
    warm_models(retriever.resources, [QUEUE_FUSION])
    assert len(warmed) == 4


def test_the_embedding_of_a_query_is_kept(retriever: OneProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded: list[str] = []
    embed = OnnxEmbedder.embed_questions

    def counted(self: OnnxEmbedder, texts: list[str], *, timeout_s: float) -> Any:
        embedded.extend(texts)
        return embed(self, texts)

    monkeypatch.setattr(OnnxEmbedder, "embed_questions", counted)
    for _ in range(2):
        retrieve(retriever, "which tree was new?", branches=["vector"])
    assert embedded == ["which tree was new?"]


def test_hybrid_and_baseline_are_asked_by_http(
    here: OneProcess, retriever: OneProcess, served_url: str
) -> None:
    """`baseline` is the vectors alone, and `bm25` the words alone."""
    assert retriever.server.url == served_url
    found: dict[str, set[str]] = {}
    with HttpApi(here.resources.settings) as api, api.client() as client:
        for name in ("rrf", "baseline", "bm25"):
            body = {"namespace": "notes", "questions": [QUERY], "configuration": name, "timeout_s": 30}
            answer = client.post("/v1/searches", json=body).json()
            assert (answer["status"], len(answer["questions"][0]["hits"])) == ("complete", 5)
            found[name] = {branch for hit in answer["questions"][0]["hits"] for branch in hit["found_by"]}
    assert found == {"rrf": {"bm25", "vector", "hyde"}, "baseline": {"vector"}, "bm25": {"bm25"}}


def test_results_are_filtered_by_agent(retriever: OneProcess) -> None:
    answer = retrieve(retriever, filters={"agent": "forester"}, top_k=60)
    assert set(ids(answer)) == {f"note{place}" for place in range(1, 60, 2)}


def test_the_answer_repeats_the_query_the_method_and_whether_it_was_reranked(retriever: OneProcess) -> None:
    answer = retrieve(retriever, top_k=7)
    assert (answer.questions[0].text, answer.configuration, answer.method) == (QUERY, "two-stage", "rrf")
    assert (len(answer.hits), {hit.score_kind for hit in answer.hits}) == (7, {"rerank"})


@pytest.mark.parametrize(
    ("options", "repeated"),
    [
        ({"top_k": 3, "depth": 20, "rerank_depth": 4}, (3, 20, "on", 4)),
        ({"rerank": "off"}, (5, 200, "off", None)),
        # Branches search as deep as the page is long.
        ({"configuration": "baseline", "top_k": 300, "depth": 20}, (300, 300, "off", None)),
    ],
)
def test_the_answer_repeats_top_k_both_depths_and_the_use_of_the_reranker(
    retriever: OneProcess, options: dict[str, Any], repeated: tuple[int, int, str, int | None]
) -> None:
    for _ in range(2):  # searched, and from the cache
        answer = retrieve(retriever, **{**options, "cache": "use"})
        assert (answer.top_k, answer.depth, answer.rerank, answer.rerank_depth) == repeated


def test_each_stage_has_its_time(retriever: OneProcess) -> None:
    answer = retrieve(retriever)
    times = {line.stage: line.ms for line in answer.stages}
    assert times.keys() >= {"search.bm25", "search.vector", "search.hyde", "fuse", "rerank"}
    assert all(ms >= 0 for ms in times.values())


@pytest.mark.slow
def test_fifty_pairs_take_two_layers_in_int8_a_sixth_of_the_processor_time_of_six_in_fp32(
    tmp_path: Path,
) -> None:
    """Models of the default encoder's width, whose weights do not change the time.  The best of three turns counts."""
    pairs = [("who pays for repairs of the roof?", "word " * 150)] * 50
    rerankers: dict[int, OnnxReranker] = {}
    for layers, precision, pieces in ((6, "fp32", 128), (2, "int8", 64)):
        model = str(write_cross_encoder(tmp_path / precision, layers))
        rerankers[layers] = OnnxReranker(
            model, threads=1, device="cpu", max_pieces=pieces, precision=precision
        )
        rerankers[layers].warm()
    took_s: dict[int, list[float]] = {layers: [] for layers in rerankers}
    for _ in range(3):
        for layers, reranker in rerankers.items():
            begun_s = time.process_time()
            assert None not in reranker.score(pairs, limit_s=300).logits
            took_s[layers].append(time.process_time() - begun_s)
    assert min(took_s[6]) >= 6 * min(took_s[2])
