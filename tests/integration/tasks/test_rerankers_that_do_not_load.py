"""Rerankers that cannot be loaded, each in another way: the worker starts all the same, and the fused order stands with the reason."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest
from chorale_client.words import QUEUE_FUSION, QUEUE_RETRIEVE

from inference.reranking.pair_reranker import PairReranker
from models.errors import NotConfigured
from tasks.worker.warming import warm
from tests.support.models.tiny_cross_encoder import write_tiny_cross_encoder
from tests.support.pipelines.one_process import OneProcess
from tests.support.servers.redis_server import RedisServer

STORE_AND_BRANCH = """
default_configuration = "plain"
[stores.local]
kind = "embedded"
[branches.bm25]
kind = "bm25"
group = "lexical"
store = "local"
[configurations.plain]
method = "rrf"
"""
RERANKER = """
[rerankers.{name}]
model = "{model}"
max_pieces = 16
[configurations.{name}]
method = "rrf"
reranker = "{name}"
"""
QUESTION = "a tree"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("models")
    names = ("misfit", "list", "dangling", "partial")
    made = {name: write_tiny_cross_encoder(folder / name) for name in names[:3]}
    made["partial"] = write_tiny_cross_encoder(
        folder / "partial", without="bert.encoder.layer.0.output.dense.bias"
    )
    config = made["misfit"] / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "num_attention_heads": 5}))
    (made["list"] / "config.json").write_text("[]")
    (made["dangling"] / "model.safetensors").unlink()
    (made["dangling"] / "model.safetensors").symlink_to("/nowhere")
    return {name: str(path) for name, path in made.items()} | {"hub": "acme/never-fetched"}


@pytest.fixture(scope="module")
def pipeline(models: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneProcess]:
    """A worker that has started although the hub never answers."""
    folder = tmp_path_factory.mktemp("pipeline")
    file = folder / "pipeline.toml"
    file.write_text(
        STORE_AND_BRANCH + "".join(RERANKER.format(name=name, model=at) for name, at in models.items())
    )
    is_over = threading.Event()

    def fetch(_: PairReranker) -> None:
        is_over.wait()
        raise NotConfigured("the test is over")

    with (
        RedisServer() as server,
        pytest.MonkeyPatch.context() as patch,
        OneProcess(server, pipeline_file=file) as here,
    ):
        patch.setattr(PairReranker, "fetch", fetch)
        here.index({f"doc{place}": ("text", f"a tree {place}") for place in range(3)})
        assert not warm(here.app, [QUEUE_RETRIEVE, QUEUE_FUSION]), "not all models are there"
        yield here
        is_over.set()


@pytest.mark.parametrize(
    ("name", "reason", "detail"),
    [
        ("misfit", "model_missing", "is not loaded: "),
        ("list", "model_missing", "AttributeError"),
        ("dangling", "model_missing", "has no weights"),
        ("partial", "not_configured", "lacks bert.encoder.layer.0.output.dense.bias"),
        ("hub", "model_missing", "nor downloaded from the Hugging Face hub yet"),
    ],
)
def test_the_fused_order_stands_and_the_answer_says_why(
    pipeline: OneProcess, name: str, reason: str, detail: str
) -> None:
    plain, answer = (pipeline.ask(QUESTION, configuration=one, include=["ids"]) for one in ("plain", name))
    assert plain.status == "complete"
    assert [(one.where, one.reason) for one in answer.degraded] == [("rerank", reason)]
    assert detail in answer.degraded[0].detail
    assert [hit.document_id for hit in answer.hits] == [hit.document_id for hit in plain.hits]
