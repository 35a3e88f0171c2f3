"""An older corpus is put back where Redis still has answers of a newer one, and nobody could tell Redis of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from chorale_client import Answer
from chorale_client.keys import GENERATION
from chorale_client.wire_names import QUEUE_RETRIEVE

from cli.backups.files import back_up
from cli.backups.restoring import put_back
from cli.installation import Installation
from config.settings import Settings
from ingest.raw_documents import RawDocument
from models.documents import Manifest
from tasks.indexing.indexing_run import SourceDocuments
from tasks.indexing.namespace_writer import index_corpus
from tasks.registration import make_app
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tasks.worker.warming import warm
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.pipelines.pipeline_files import BM25_ALONE
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

pytestmark = pytest.mark.slow


OLD = {"lease": ("Lease", "The lease says who pays.")}
NEW = {"order": ("Order", "The order says who pays."), "rule": ("Rule", "The rule says who pays.")}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningPipeline]:
    file = tmp_path / "pipeline.toml"
    file.write_text(BM25_ALONE)
    queues = ["chorale.retrieve", "chorale.bm25", "chorale.fusion"]
    with RedisServer() as server, RunningPipeline(server, queues=queues, pipeline_file=file) as started:
        yield started


def ask(running: RunningPipeline, namespace: str = "default") -> Answer:
    return running.client().retrieve("who pays?", namespace=namespace, timeout_s=20)


def cached(running: RunningPipeline, namespace: str = "default") -> set[str]:
    until(lambda: ask(running, namespace).cached)
    return documents(ask(running, namespace))


def documents(answer: Answer) -> set[str]:
    return {hit.document_id for hit in answer.hits}


def test_no_answer_of_the_newer_corpus_is_served(running: RunningPipeline, tmp_path: Path) -> None:
    installation = Installation(running.resources.settings, None)
    running.index(OLD)
    back_up(installation, tmp_path / "backup", force=False)
    for name, text in NEW.items():
        running.index({name: text})
    running.index(NEW, namespace="later")
    assert cached(running) == {"lease", "order", "rule"}
    assert cached(running, "later") == {"order", "rule"}

    for process in running.processes.values():
        process.kill()
        process.wait()
    shutil.rmtree(running.resources.settings.home / "corpus")
    put_back(installation, tmp_path / "backup", force=True)
    running.revive()

    answer = ask(running)
    assert (answer.status, answer.cached, documents(answer)) == ("complete", False, {"lease"})
    assert cached(running) == {"lease"}
    gone = ask(running, "later")
    assert (gone.status, gone.cached, documents(gone)) == ("failed", False, set())
    assert [missing.reason for missing in gone.degraded if missing.where == "search.bm25"] == ["bad_index"]


@pytest.fixture
def resources(own_redis_server: RedisServer, tmp_path: Path) -> Resources:
    return Resources(Settings(home=tmp_path), load_pipeline(), own_redis_server.url)


def test_indexing_after_a_restore_serves_no_cached_answer_of_the_newer_corpus(resources: Resources) -> None:
    """It changes nothing in the corpus, which says all the same that it is another one than before."""
    lease = [RawDocument("notes/lease", "notes", *OLD["lease"])]
    first = index_corpus(resources, SourceDocuments(lease, "notes"), namespace="law")
    resources.redis.set(f"{GENERATION}law", 7)
    again = index_corpus(resources, SourceDocuments(lease, "notes"), namespace="law")
    assert (first.added, again.added, again.unchanged) == (1, 0, 1)
    assert again.generation == resources.generations.in_redis("law") == 8


def test_no_answer_is_cached_while_redis_has_a_newer_generation_than_the_restored_corpus(
    resources: Resources,
) -> None:
    store, read = resources.writing_store, resources.generations.in_redis_or_copied
    manifest = Manifest(splitter="whole", language="en", analyser="tests", embedder="none", dimension=0)
    store.create("law", manifest)
    resources.redis.mset({f"{GENERATION}law": 7, f"{GENERATION}later": 3})

    assert read("law") is None
    assert read("later") is None, "the corpus knows no such namespace"
    warm(make_app(resources, queues=(QUEUE_RETRIEVE,)), [QUEUE_RETRIEVE])
    assert read("law") == 8, "a planner that starts raises it in both"
    resources.redis.set(f"{GENERATION}law", 5)
    assert (read("law"), read("law")) == (None, 8), "Redis is an older one itself, and is told"
