"""A worker embeds the documents of a message once, before it holds their namespace.  Readers see each batch when it is committed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
import redis

from config.settings import Settings
from ingest.raw_documents import RawDocument, Skipped
from ingest.split import Splitter
from models.documents import Document, Matrix, Passage
from models.errors import ServiceError, WriterBusy
from models.not_indexed import NotIndexed
from tasks.indexing import embedding_prefetch
from tasks.indexing.embedding_prefetch import EmbeddingPrefetch
from tasks.indexing.handed_in_documents import Unfinished, index_handed_in
from tasks.indexing.indexing_run import IndexReport, SourceDocuments
from tasks.indexing.message_order import TurnOver
from tasks.indexing.namespace_writer import create_namespace, index_corpus
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.models.used_embedder import use_embedder
from tests.support.pipelines.indexed_texts import index_texts
from tests.support.servers.redis_server import RedisServer
from tests.support.stores.one_engine import embedded_store


@pytest.fixture
def resources(tmp_path: Path) -> Resources:
    return Resources(Settings(home=tmp_path), load_pipeline(None), "redis://127.0.0.1:1/0")


def message(*names: str) -> list[RawDocument]:
    return [RawDocument(name, "task", name, f"{name} is cut in spring.") for name in names]


def index_into(resources: Resources, documents: list[RawDocument], ahead: EmbeddingPrefetch) -> IndexReport:
    return index_corpus(resources, SourceDocuments(documents, "task"), namespace="garden", ahead=ahead)


@pytest.mark.slow
def test_a_message_that_waits_for_another_writer_is_embedded_meanwhile_and_not_again(
    resources: Resources,
) -> None:
    embedder = HashingEmbedder()
    ahead = EmbeddingPrefetch(embedder)
    documents = message("rose", "hedge")
    index_into(resources, message("rose"), EmbeddingPrefetch(HashingEmbedder()))

    writer = embedded_store(resources.settings.home / "corpus")
    with writer.exclusive("garden"), pytest.raises(WriterBusy):
        index_into(resources, documents, ahead)
    writer.close()
    # What the namespace has already is not embedded.
    assert embedder.embedded == ["hedge\nhedge is cut in spring."]
    report = index_into(resources, documents, ahead)
    assert (report.added, report.unchanged, report.passages) == (1, 1, 1)
    assert len(embedder.embedded) == 1
    vectors = resources.store("local").vectors("garden", ["hedge#0"])
    assert vectors["hedge#0"] == pytest.approx(embedder.embed_questions(embedder.embedded)[0])


def test_a_large_message_is_embedded_and_written_portion_by_portion(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = HashingEmbedder()
    use_embedder(resources, embedder)
    # "rose is cut in spring." has 22 characters and is one passage.
    monkeypatch.setattr(embedding_prefetch, "PORTION_CHARACTERS", 44)
    monkeypatch.setattr(embedding_prefetch, "WINDOW_PASSAGES", 1)
    store = resources.writing_store
    written = store.upsert
    seen: list[tuple[int, int]] = []

    def upsert(namespace: str, documents: Sequence[Document]) -> int:
        seen.append((len(documents), len(embedder.embedded)))
        return written(namespace, documents)

    monkeypatch.setattr(store, "upsert", upsert)
    rows = [
        {"id": name, "title": name, "text": f"{name} is cut in spring."} for name in ("rose", "yews", "pear")
    ]
    report = index_handed_in(resources, Unfinished(), None, rows, namespace="garden", source="task")
    assert seen == [(2, 2), (1, 3)]
    assert (report.added, report.passages) == (3, 3)


def test_a_message_goes_on_where_its_turn_was_over(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = HashingEmbedder(max_pieces=16)
    use_embedder(resources, embedder)
    unfinished, checks = Unfinished(), count(1)
    text = " ".join(f"word{number}" for number in range(3_000))
    rows = [{"id": "rose", "title": "rose", "text": text}]
    cut: list[Passage] = []
    passages = Splitter.passages

    def noted(splitter: Splitter, document: RawDocument) -> Iterator[Passage]:
        for passage in passages(splitter, document):
            cut.append(passage)
            yield passage

    monkeypatch.setattr(Splitter, "passages", noted)
    calls, cut_at_first, report = 0, 0, None
    while report is None:
        calls += 1
        with suppress(TurnOver):
            report = index_handed_in(
                resources,
                unfinished,
                None,
                rows,
                namespace="garden",
                source="task",
                is_over=lambda: next(checks) % 2 == 0,
            )
        cut_at_first = cut_at_first or len(cut)
    assert calls > 2
    # The first turn ends within the document, and no passage is cut twice.
    assert cut_at_first < len(cut) == len({passage.start for passage in cut})
    assert len(embedder.embedded) == len(set(embedder.embedded)) >= 3_000 / 16


def index_one(resources: Resources, number: int) -> IndexReport:
    texts = {f"kitchen/{number}": (f"Tea {number}", f"Tea number {number} is drawn.")}
    return index_texts(resources, "kitchen", texts, source="kitchen")


def test_the_generation_is_announced_and_never_goes_back(
    redis_client: redis.Redis, redis_server: RedisServer, tmp_path: Path
) -> None:
    resources = Resources(Settings(home=tmp_path), load_pipeline(), redis_server.url)
    use_embedder(resources, HashingEmbedder())
    for generation in (1, 2):
        report = index_one(resources, generation)
        assert (report.added, report.generation) == (1, generation)
        assert resources.generations.in_redis("kitchen") == generation
    resources.generations.publish("kitchen", 1)
    assert resources.generations.in_redis("kitchen") == 2


def test_without_a_redis_the_batch_is_committed_all_the_same(resources: Resources) -> None:
    use_embedder(resources, HashingEmbedder())
    assert index_one(resources, 1).added == 1
    assert resources.writing_store.namespaces()[0].documents == 1


class NoEmbedder(HashingEmbedder):
    def embed_passages(self, *args: object, **options: object) -> Matrix:
        raise ServiceError("the model is away")


@pytest.mark.parametrize("is_there", [False, True])
def test_a_run_that_writes_nothing_leaves_no_namespace_behind_that_it_made(
    resources: Resources, is_there: bool
) -> None:
    use_embedder(resources, HashingEmbedder())
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
