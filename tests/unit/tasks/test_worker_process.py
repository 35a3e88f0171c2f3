from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from redis.exceptions import AuthenticationError

from config.settings import Settings
from models.documents import Document, Manifest, Passage
from search.engines.embedded.store import EmbeddedStore
from search.protocol import Search
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


def with_documents(home: Path, redis: RedisServer, namespaces: Mapping[str, int]) -> Settings:
    """An installation with so many documents in each of these namespaces."""
    (home / "model").mkdir()
    write_tiny_bert(home / "model")
    settings = Settings(home=home, embedder=str(home / "model"))
    model = HashingEmbedder(dimension=4)
    store = Resources(settings, load_pipeline(None), redis.url).writing_store
    for namespace, documents in namespaces.items():
        store.create(namespace, Manifest("whole", "en", "tests", model.fingerprint, 4))
        for number in range(documents):
            passage = Passage(f"{number}#0", 0, "pear", end=4, vector=model.embed_passages(["pear"])[0])
            document = Document(f"{number}", "tests", "", (passage,), content_hash="a", revision="a")
            store.upsert(namespace, [document])
    return settings


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
    settings = with_documents(tmp_path, redis_server, {"default": 1})
    fresh = Resources(settings, load_pipeline(None), redis_server.url)
    warm(make_app(fresh, queues=(queue,)), [queue])
    opened = fresh.store("local")
    assert isinstance(opened, EmbeddedStore)
    view = opened._view("default")
    assert (view.searcher is not None, view.vectors is not None) == (loads_words, loads_vectors)


def test_a_worker_opens_the_largest_namespaces_when_it_starts_and_the_others_when_they_are_searched(
    tmp_path: Path, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.worker.warming.MOST_WARMED", 2)
    settings = with_documents(tmp_path, redis_server, {"small": 1, "large": 3, "tiny": 0, "larger": 4})
    fresh = Resources(settings, load_pipeline(None), redis_server.url)
    assert warm(make_app(fresh, queues=("chorale.bm25",)), ["chorale.bm25"]) == []
    opened = fresh.store("local")
    assert isinstance(opened, EmbeddedStore)
    assert [*opened._readers] == ["large", "larger"]
    assert opened.search_text("small", ["pear"], Search(5, timeout_s=30))[0].hits


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
