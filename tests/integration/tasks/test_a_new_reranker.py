"""A new model is rolled out: planners have it already, and a fusion worker still has the old one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chorale_client.answer import Answer
from safetensors.numpy import load_file, save_file

from tests.support.models.tiny_cross_encoder import write_tiny_cross_encoder
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer

PIPELINE = """
[stores.local]
kind = "embedded"
[branches.bm25]
kind = "bm25"
group = "lexical"
store = "local"
[rerankers.tiny]
model = "{model}"
max_pieces = 32
weight = 1
[configurations.best]
method = "rrf"
reranker = "tiny"
"""
CORPUS = {
    f"doc{place}": (f"text {place}", f"a tree {'date ' * place}{'other word ' * (place % 5)}")
    for place in range(9)
}


@pytest.fixture
def pipelines(tmp_path: Path) -> dict[str, Path]:
    """By model: `old`, and `new`, which finds the best what the other finds the worst."""
    files = {}
    for name in ("old", "new"):
        folder = write_tiny_cross_encoder(tmp_path / name)
        if name == "new":
            weights = load_file(folder / "model.safetensors")
            for part in ("weight", "bias"):
                weights[f"classifier.{part}"] *= -1
            save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        files[name] = tmp_path / f"{name}.toml"
        files[name].write_text(PIPELINE.format(model=folder))
    return files


@pytest.fixture
def half_way(pipelines: dict[str, Path]) -> Iterator[RunningPipeline]:
    queues = ["chorale.retrieve", "chorale.bm25"]
    with (
        RedisServer() as server,
        RunningPipeline(server, queues=queues, pipeline_file=pipelines["new"]) as running,
    ):
        running.index(CORPUS)
        fuse_with(running, pipelines["old"])
        yield running


def fuse_with(pipeline: RunningPipeline, file: Path) -> None:
    if "chorale.fusion" in pipeline.processes:
        pipeline.kill("chorale.fusion")
    pipeline.environment["CHORALE_PIPELINE_FILE"] = str(file)
    pipeline.start("chorale.fusion")
    pipeline.wait_ready()


def ask(pipeline: RunningPipeline, **options: Any) -> Answer:
    return pipeline.client().retrieve("a tree", timeout_s=3, top_k=9, include=["ids"], **options)


def order(answer: Answer) -> list[str]:
    return [hit.document_id for hit in answer.hits]


def test_the_old_rerankers_order_is_given_once_with_its_name_and_never_as_the_new_ones(
    half_way: RunningPipeline, pipelines: dict[str, Path]
) -> None:
    old = ask(half_way)
    assert [(one.where, one.reason) for one in old.degraded] == [("rerank", "model_missing")]
    assert "reranked by" in old.degraded[0].detail
    assert {hit.rerank and hit.rerank.stage for hit in old.hits} == {"reranked"}

    fuse_with(half_way, pipelines["new"])
    new = ask(half_way)
    assert (new.status, new.cached) == ("complete", False)
    assert order(new) == order(old)[::-1]
    # What is kept is written after the end was announced.
    until = time.monotonic() + 10
    while not (again := ask(half_way)).cached:
        assert time.monotonic() < until
    assert order(again) == order(new)
