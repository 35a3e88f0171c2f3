from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import pytest
from redis.exceptions import AuthenticationError

from config.settings import Settings
from models.documents import Document, Manifest, Passage
from search.engines.embedded.store import EmbeddedStore
from tasks.registration import make_app
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tasks.worker import worker_process as worker
from tasks.worker.warming import warm
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.models.tiny_bert import write_tiny_bert
from tests.support.new_process import imported
from tests.support.servers.redis_server import RedisServer


@pytest.mark.slow
def test_a_starting_worker_imports_nothing_that_only_other_workers_need() -> None:
    heavy = "sqlalchemy alembic onnx onnxruntime tokenizers huggingface_hub ingest torch"
    assert imported("import tasks.worker.worker_process", heavy) == []


@pytest.mark.parametrize(
    ("queue", "loads_words", "loads_vectors"),
    [
        ("chorale.bm25", True, False),
        ("chorale.vector", False, True),
        ("chorale.hyde", True, True),
        ("chorale.fusion", False, False),
    ],
)
def test_a_worker_loads_only_the_parts_of_an_index_that_its_queue_reads(
    tmp_path: Path, redis_server: RedisServer, queue: str, loads_words: bool, loads_vectors: bool
) -> None:
    (tmp_path / "model").mkdir()
    write_tiny_bert(tmp_path / "model")
    settings = Settings(home=tmp_path, embedder=str(tmp_path / "model"))
    resources = Resources(settings, load_pipeline(None), redis_server.url)
    model = HashingEmbedder(dimension=4)
    store = resources.writing_store
    store.create("default", Manifest("whole", "en", "tests", model.fingerprint, 4))
    passage = Passage("a#0", 0, "pear", end=4, vector=model.embed_passages(["pear"])[0])
    store.upsert("default", [Document("a", "tests", "", (passage,), content_hash="a", revision="a")])

    fresh = Resources(settings, load_pipeline(None), redis_server.url)
    warm(make_app(fresh, queues=(queue,)), [queue])
    opened = fresh.store("local")
    assert isinstance(opened, EmbeddedStore)
    view = opened._view("default")
    assert (view.searcher is not None, view.vectors is not None) == (loads_words, loads_vectors)


def test_a_redis_that_refuses_logins_is_asked_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "AGAIN_S", 0.01)
    monkeypatch.setattr(worker, "LONGEST_AGAIN_S", 0.04)
    asked_s: list[float] = []

    def begin() -> str:
        asked_s.append(time.monotonic())
        if len(asked_s) <= 4:
            raise AuthenticationError("WRONGPASS")
        return "begun"

    assert worker.when_redis_answers(begin, "redis://nowhere/0") == "begun"
    waits_s = [after - before for before, after in pairwise(asked_s)]
    assert all(wait >= least for wait, least in zip(waits_s, (0.01, 0.02, 0.04, 0.04), strict=True))
