"""What a worker loads before its first message, how it waits for Redis, and how it shows that a task has hung."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from redis.exceptions import AuthenticationError

from config.settings import Settings
from models.documents import Document, Manifest, Passage
from models.errors import NotConfigured
from search.engines.embedded.store import EmbeddedStore
from search.protocol import Search
from tasks.registration import make_app
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tasks.worker import warming
from tasks.worker import worker_process as worker
from tasks.worker.heartbeat import Heartbeat
from tasks.worker.warming import collect_seldom, warm
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
    (vector,) = model.embed_passages(["pear"])

    def document(number: int) -> Document:
        passages = (Passage(f"{number}#0", 0, "pear", end=4, vector=vector),)
        return Document(f"{number}", "tests", "", passages, content_hash="a", revision="a")

    store = Resources(settings, load_pipeline(None), redis.url).writing_store
    for namespace, documents in namespaces.items():
        store.create(namespace, Manifest("whole", "en", "tests", model.fingerprint, 4))
        if documents:
            store.upsert(namespace, [document(number) for number in range(documents)])
    store.close()
    return settings


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer) -> Settings:
    return with_documents(tmp_path_factory.mktemp("installed"), redis_server, {"default": 1})


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
    installed: Settings, redis_server: RedisServer, queue: str, loads_words: bool, loads_vectors: bool
) -> None:
    fresh = Resources(installed, load_pipeline(None), redis_server.url)
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
    attempts_s: list[float] = []

    def begin() -> str:
        attempts_s.append(time.monotonic())
        if len(attempts_s) <= 4:
            raise AuthenticationError("WRONGPASS")
        return "begun"

    assert worker.when_redis_answers(begin, "redis://nowhere/0") == "begun"
    waits_s = [after - before for before, after in pairwise(attempts_s)]
    assert all(wait >= least for wait, least in zip(waits_s, (0.01, 0.02, 0.04, 0.04), strict=True))


def test_a_refusal_is_logged_once_and_again_only_when_it_changes() -> None:
    refusals = iter(["no head", "no head", "too deep", "", "too deep"])

    def warm() -> None:
        if refusal := next(refusals):
            raise NotConfigured(refusal)

    resources: Any = SimpleNamespace(reranker=lambda name: SimpleNamespace(warm=warm))
    logged = []
    for _ in range(5):
        with structlog.testing.capture_logs() as logs:
            warming._warm_reranker(resources, "of this test")
        logged.append([line["error"] for line in logs])
    assert logged == [["no head"], [], ["too deep"], [], ["too deep"]]


class Written:
    """Redis, which counts what is written."""

    count = 0

    def time(self) -> tuple[int, int]:
        return 0, 0

    def set(self, *_: object, **__: object) -> None:
        self.count += 1


@pytest.mark.parametrize("others", [0, 3], ids=["alone", "with others in between"])
def test_a_task_that_takes_too_long_stops_the_heartbeat_until_it_ends(
    monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    now_s = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    redis: Any = Written()
    beating = Heartbeat(redis, "worker", ["chorale.bm25"], hung_after_s=60)
    beating._begin()
    for _ in range(others):
        beating._begin()
        beating._end()

    now_s = 61.0
    beating.beat()
    assert redis.count == 0

    beating._end()
    beating.beat()
    assert redis.count == 1


@pytest.fixture
def collector() -> Iterator[None]:
    """The collector is as before afterwards.  It looks at all objects of all tests before."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


class Node:
    myself: Any = None


@pytest.mark.slow
@pytest.mark.usefixtures("collector")
def test_what_the_start_has_made_is_not_looked_at_again_and_answers_set_off_no_collection() -> None:
    made = [Node() for _ in range(1_000)]
    collect_seldom()
    seen = {id(one) for one in gc.get_objects()}
    assert not any(id(one) in seen for one in made)
    before = gc.get_stats()[0]["collections"]
    rankings = [[[f"document {place}", float(place)] for place in range(100)] for _ in range(30)]
    assert gc.get_stats()[0]["collections"] == before
    assert len(rankings) == 30


@pytest.mark.slow
@pytest.mark.usefixtures("collector")
def test_garbage_that_refers_to_itself_is_still_collected() -> None:
    collect_seldom()
    one = Node()
    one.myself = one
    reference = weakref.ref(one)
    del one
    gc.collect()
    assert reference() is None
