"""The two-stage retriever: a coarse search, then a cross-encoder on the best hits, and the vectors alone to compare with.

Serving without the reranker's model by HTTP stands in `tests/acceptance/installations/test_up.py`, what rerankers that fail cost in
`tests/integration/tasks/test_reranking.py`, the choice of a device in `tests/unit/inference/test_onnx_devices.py`, an encoder of its own
for a namespace in `tests/integration/tasks/test_encoders.py`; what answers cost and find, in `docs/evidence`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chorale_client import Answer
from chorale_client.wire_names import QUEUE_FUSION

from docs.evidence.reranked import write_cross_encoder
from inference.pair_reranker import PairReranker
from inference.rerankers import OnnxReranker
from tasks.worker.warming import warm_models
from tests.support.models.tiny_cross_encoder import write_tiny_cross_encoder
from tests.support.pipelines.one_process import OneProcess
from tests.support.servers.http_api import HttpApi

ROOT = Path(__file__).parents[3]
RERANKER = """
[rerankers.two-stage]
model = "{model}"
max_pieces = 32
budget_ms = 10_000
[configurations.two-stage]
method = "rrf"
reranker = "two-stage"
"""
QUERY = "a tree"
DOCUMENTS = {
    f"note{place}": (
        f"Note {place}",
        f"a tree {'date ' * (place % 7)}{'other word ' * (place % 5)}{'text ' * (place % 3)}{place}",
    )
    for place in range(60)
}


@pytest.fixture(scope="module")
def retriever(here: OneProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneProcess]:
    """The shipped pipeline with a reranker."""
    folder = tmp_path_factory.mktemp("two-stage")
    file = folder / "pipeline.toml"
    declared = RERANKER.format(model=write_tiny_cross_encoder(folder / "tiny"))
    file.write_text((ROOT / "config" / "pipeline.toml").read_text() + declared)
    settings = {"CHORALE_HOME": str(here.home)}
    with OneProcess(here.server, pipeline_file=file, environment=settings) as pipeline:
        for agent, remainder in (("gardener", 0), ("forester", 1)):
            texts = {name: text for at, (name, text) in enumerate(DOCUMENTS.items()) if at % 2 == remainder}
            pipeline.index(texts, namespace="notes", agent=agent)
        pipeline.resources.reranker("two-stage").warm()
        yield pipeline


def retrieve(pipeline: OneProcess, **options: Any) -> Answer:
    usual = {"namespace": "notes", "configuration": "two-stage", "cache": "bypass", "top_k": 60}
    return pipeline.ask(QUERY, **{**usual, "include": ["ids", "metadata", "explanation"], **options})


def ids(answer: Answer) -> list[str]:
    return [hit.document_id for hit in answer.hits]


def test_the_coarse_search_finds_and_the_cross_encoder_orders_the_best_fifty_of_a_hundred(
    retriever: OneProcess,
) -> None:
    """All 60 documents are among the 100 of the coarse search; the last ten stay below, in its order."""
    coarse = retrieve(retriever, rerank="off")
    answer = retrieve(retriever)
    lines = {line.stage: line for line in answer.stages}
    reranked = lines["rerank"]
    assert (answer.status, reranked.status, reranked.n_in, reranked.n_out) == ("complete", "ok", 50, 50)
    stages = [hit.rerank.stage if hit.rerank else None for hit in answer.hits]
    assert stages == ["reranked"] * 50 + ["coarse_only"] * 10
    assert set(ids(answer)[:50]) == set(ids(coarse)[:50])
    assert ids(answer)[50:] == ids(coarse)[50:]
    assert ids(answer) != ids(coarse)
    assert lines.keys() >= {"search.bm25", "search.vector", "search.hyde", "fuse", "rerank"}
    assert all(line.ms >= 0 for line in lines.values())
    assert (answer.questions[0].text, answer.configuration, answer.method) == (QUERY, "two-stage", "rrf")
    assert {hit.score_kind for hit in coarse.hits} == {"rrf"}
    assert {hit.score_kind for hit in answer.hits} == {"rerank"}
    filtered = retrieve(retriever, filters={"agent": "forester"})
    assert set(ids(filtered)) == {f"note{place}" for place in range(1, 60, 2)}


@pytest.mark.parametrize(
    ("options", "repeated"),
    [
        ({"top_k": 3, "depth": 20, "rerank_depth": 4}, (3, 20, "on", 4)),
        ({"top_k": 5, "rerank": "off"}, (5, 200, "off", None)),
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


def test_a_reranker_that_no_worker_needs_is_not_loaded(
    retriever: OneProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmed: list[str] = []
    monkeypatch.setattr(PairReranker, "warm", lambda reranker: warmed.append(reranker.name))
    warm_models(retriever.resources, ["chorale.bm25", "chorale.vector"], retriever.resources.namespaces())
    assert warmed == []
    warm_models(retriever.resources, [QUEUE_FUSION], retriever.resources.namespaces())
    assert len(warmed) == 1


def test_hybrid_and_baseline_are_asked_by_http(
    here: OneProcess, retriever: OneProcess, served_url: str
) -> None:
    """`baseline` is the vectors alone, and `bm25` the words alone."""
    assert retriever.server.url == served_url
    branches: dict[str, set[str]] = {}
    with HttpApi(here.resources.settings) as api, api.client() as client:
        for name in ("rrf", "baseline", "bm25"):
            body = {"namespace": "notes", "questions": [QUERY], "configuration": name, "timeout_s": 30}
            answer = client.post("/v1/searches", json=body).json()
            assert (answer["status"], len(answer["questions"][0]["hits"])) == ("complete", 5)
            branches[name] = {branch for hit in answer["questions"][0]["hits"] for branch in hit["found_by"]}
    assert branches == {"rrf": {"bm25", "vector", "hyde"}, "baseline": {"vector"}, "bm25": {"bm25"}}


@pytest.mark.slow
def test_pairs_take_two_layers_in_int8_a_sixth_of_the_processor_time_of_six_in_fp32(tmp_path: Path) -> None:
    """Models of the default encoder's width, whose weights do not change the time.  The best of three turns counts."""
    pairs = [("who pays for repairs of the roof?", "word " * 150)] * 16
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
