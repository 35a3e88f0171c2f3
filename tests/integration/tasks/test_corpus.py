"""Readers are told of each batch as it is committed, and no Redis is no reason to stop."""

from __future__ import annotations

from pathlib import Path

import redis

from config.settings import Settings
from ingest.raw_documents import RawDocument
from tasks.indexing.indexing_run import IndexReport, SourceDocuments
from tasks.indexing.namespace_writer import index_corpus
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.models.used_embedder import use_embedder
from tests.support.servers.redis_server import RedisServer
from wiring.pipeline import load_pipeline
from wiring.resources import Resources


def resources_of(home: Path, redis_url: str) -> Resources:
    resources = Resources(Settings(home=home), load_pipeline(), redis_url)
    use_embedder(resources, HashingEmbedder())
    return resources


def index_one(resources: Resources, number: int) -> IndexReport:
    tea = RawDocument(f"kitchen/{number}", "kitchen", f"Tea {number}", f"Tea number {number} is drawn.")
    return index_corpus(resources, SourceDocuments([tea], "kitchen"), namespace="kitchen")


def test_the_generation_is_announced_and_never_goes_back(
    redis_client: redis.Redis, redis_server: RedisServer, tmp_path: Path
) -> None:
    resources = resources_of(tmp_path, redis_server.url)
    for generation in (1, 2):
        report = index_one(resources, generation)
        assert (report.added, report.generation) == (1, generation)
        assert resources.generations.in_redis("kitchen") == generation
    resources.generations.publish("kitchen", 1)
    assert resources.generations.in_redis("kitchen") == 2


def test_without_a_redis_the_batch_is_committed_all_the_same(tmp_path: Path) -> None:
    resources = resources_of(tmp_path, f"unix://{tmp_path}/no.sock")
    assert index_one(resources, 1).added == 1
    assert resources.writing_store.namespaces()[0].documents == 1
