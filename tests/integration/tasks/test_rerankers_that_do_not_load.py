"""Workers whose rerankers cannot be loaded, each in another way: they start, and the fused order stands with the reason."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator

import pytest
from chorale_client.answer import Answer

from tests.support.models.tiny_cross_encoder import write_tiny_cross_encoder
from tests.support.pipelines.pipeline import RunningPipeline
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
WORKERS = ("chorale.retrieve", "chorale.bm25", "chorale.fusion")


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
def pipeline(models: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPipeline]:
    folder = tmp_path_factory.mktemp("pipeline")
    file = folder / "pipeline.toml"
    file.write_text(
        STORE_AND_BRANCH + "".join(RERANKER.format(name=name, model=at) for name, at in models.items())
    )
    with (
        RedisServer() as server,
        socket.create_server(("127.0.0.1", 0)) as silent,
        RunningPipeline(server, queues=[], pipeline_file=file) as running,
    ):
        running.environment |= {
            "HF_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "HF_HOME": str(folder),
        }
        running.index({f"doc{place}": ("text", f"a tree {place}") for place in range(3)})
        for name in WORKERS:
            running.start(name)
        # The fusion works and says that it is not whole.
        running.wait_ready(["chorale.retrieve", "chorale.bm25"])
        until = time.monotonic() + 60
        while ask(running, "plain").status != "complete":
            assert time.monotonic() < until, "nobody fuses"
        yield running


def ask(pipeline: RunningPipeline, configuration: str) -> Answer:
    return pipeline.client().retrieve(
        QUESTION, configuration=configuration, timeout_s=2, include=["ids"], cache="refresh"
    )


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
    pipeline: RunningPipeline, name: str, reason: str, detail: str
) -> None:
    plain, answer = ask(pipeline, "plain"), ask(pipeline, name)
    assert plain.status == "complete"
    assert [(one.where, one.reason) for one in answer.degraded] == [("rerank", reason)]
    assert detail in answer.degraded[0].detail
    assert [hit.document_id for hit in answer.hits] == [hit.document_id for hit in plain.hits]
    # Planned at once, whatever the hub does.
    assert answer.took_ms < 1_000


def test_no_worker_ended(pipeline: RunningPipeline) -> None:
    assert {name: pipeline.processes[name].poll() for name in WORKERS} == dict.fromkeys(WORKERS)
