"""Readers are told of each batch as it is committed, and no Redis is no reason to stop."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from config.settings import Settings
from ingest.raw_documents import RawDocument, Skipped
from models.documents import Matrix
from models.errors import ServiceError
from models.not_indexed import NotIndexed
from tasks.indexing.indexing_run import IndexReport, SourceDocuments
from tasks.indexing.namespace_writer import create_namespace, index_corpus
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.models.used_embedder import use_embedder
from tests.support.servers.redis_server import RedisServer


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


class NoEmbedder(HashingEmbedder):
    def embed_passages(self, *args: object, **options: object) -> Matrix:
        raise ServiceError("the model is away")


@pytest.mark.parametrize("is_there", [False, True])
def test_a_run_that_writes_nothing_leaves_no_namespace_behind_that_it_made(
    tmp_path: Path, is_there: bool
) -> None:
    resources = resources_of(tmp_path, f"unix://{tmp_path}/no.sock")
    if is_there:
        create_namespace(resources, "kitchen")
    unreadable = Skipped("torn.txt", NotIndexed.NOT_UTF8, "not UTF-8")
    report = index_corpus(resources, SourceDocuments([unreadable], "kitchen"), namespace="kitchen")
    assert (report.added, report.skipped) == (0, [unreadable])
    use_embedder(resources, NoEmbedder())
    with pytest.raises(ServiceError, match="the model is away"):
        index_one(resources, 1)
    there = [state.name for state in resources.writing_store.namespaces()]
    assert there == (["kitchen"] if is_there else [])

    use_embedder(resources, HashingEmbedder())
    assert index_one(resources, 1).added == 1
    use_embedder(resources, NoEmbedder())
    with pytest.raises(ServiceError, match="the model is away"):
        index_one(resources, 2)
    assert [state.documents for state in resources.writing_store.namespaces()] == [1]
