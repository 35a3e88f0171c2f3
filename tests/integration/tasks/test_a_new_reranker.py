"""A new model is rolled out: planners have it already, and a fusion worker still has the old one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chorale_client.answer import Answer
from safetensors.numpy import load_file, save_file

from tests.support.models.tiny_cross_encoder import write_tiny_cross_encoder
from tests.support.pipelines.one_process import OneProcess
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


def order(answer: Answer) -> list[str]:
    return [hit.document_id for hit in answer.hits]


def test_the_old_rerankers_order_is_given_once_with_its_name_and_never_as_the_new_ones(
    own_redis_server: RedisServer, pipelines: dict[str, Path]
) -> None:
    home = {"CHORALE_HOME": str(pipelines["new"].parent)}
    given: dict[str, Any] = {"top_k": 9, "include": ["ids"]}
    with (
        OneProcess(own_redis_server, pipeline_file=pipelines["new"], environment=home) as here,
        OneProcess(own_redis_server, pipeline_file=pipelines["old"], environment=home) as behind,
    ):
        for one in (here, behind):
            one.resources.reranker("tiny").warm()
        here.index(CORPUS)
        request_id = here.submit("a tree", **given)
        here.work("chorale.bm25")
        behind.work()
        old = here.answer(request_id)
        assert [(one.where, one.reason) for one in old.degraded] == [("rerank", "model_missing")]
        assert "reranked by" in old.degraded[0].detail
        assert {hit.rerank and hit.rerank.stage for hit in old.hits} == {"reranked"}

        new, again = here.ask("a tree", **given), here.ask("a tree", **given)
        assert (new.status, new.cached, again.cached) == ("complete", False, True)
        assert order(new) == order(again) == order(old)[::-1]
