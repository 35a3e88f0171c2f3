"""Writing: refused documents, rebuilds during searches, and interrupted batches."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from elasticsearch import Elasticsearch

from ingest.document_ids import MAX_ID_BYTES
from models.documents import Document, Passage
from models.errors import BadIndex, ManifestMismatch, StageFailure
from search.deadline import Deadline
from search.engines.elasticsearch import lookups
from search.engines.elasticsearch.searching import msearch
from search.engines.elasticsearch.store import ElasticsearchStore
from search.protocol import Search
from tests.contracts.store_documents import document
from tests.support.servers.elasticsearch_server import (
    HUNSPELL,
    address,
    corner,
    host_and_port,
    opened,
)
from tests.support.servers.tcp_proxy import TcpProxy
from tests.support.stores.known_index import index_of


@pytest.fixture(scope="module")
def prefix() -> Iterator[str]:
    with corner() as prefix:
        yield prefix


@pytest.fixture
def store(prefix: str) -> Iterator[ElasticsearchStore]:
    with opened(prefix) as store:
        store.create(index_of())
        yield store
        store.drop(index_of())


@pytest.fixture
def client() -> Iterator[Elasticsearch]:
    with Elasticsearch(address(), request_timeout=30) as client:
        yield client


def passage_ids(store: ElasticsearchStore, text: str, namespace: str = "ns") -> list[str]:
    (ranking,) = store.search_text(namespace, [text], Search(depth=1_000, timeout_s=30))
    return [hit.passage_id for hit in ranking.hits]


def test_each_page_of_a_listing_has_the_time_of_one_call(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(index_of(), [document("d", *["pear"] * 4)], ())
    deadlines: list[Deadline] = []

    def searched(call: Any, bodies: Any) -> Any:
        deadlines.append(call.deadline)
        return msearch(call, bodies)

    monkeypatch.setattr(lookups, "msearch", searched)
    monkeypatch.setattr(lookups, "MOST_HITS", 2)
    assert len(list(store.entries(index_of()))) == 5, "four passages and the record of the document"
    assert len({id(deadline) for deadline in deadlines}) == 3


def test_the_longest_ids_that_are_ingested_are_kept_whole(store: ElasticsearchStore) -> None:
    name = "ä" * (MAX_ID_BYTES // 2)
    store.write(index_of(), [document(name, *["pear"] * 1_001)], ())
    assert {entry.passage_id for entry in store.entries(index_of())} >= {f"{name}#0", f"{name}#1000"}
    store.write(index_of(), (), [name])
    assert list(store.entries(index_of())) == []


def test_unchanged_passages_are_not_written_again(
    store: ElasticsearchStore, prefix: str, client: Elasticsearch
) -> None:
    store.write(index_of(), [document("a", "pear", "plum"), document("b", "pear")], ())

    def written() -> int:
        stats = client.indices.stats(index=f"{prefix}-ns.v1", metric="indexing")
        return int(stats["_all"]["primaries"]["indexing"]["index_total"])

    before = written()
    store.write(index_of(), [document("a", "pear", "plum"), document("b", "pear")], ())
    assert written() == before
    store.write(index_of(), [document("a", "pear", "cherry"), document("b", "pear")], ())
    # The passage, and the record of its document, which has the words of the whole.
    assert written() == before + 2


def test_the_mapping_never_grows(store: ElasticsearchStore, prefix: str, client: Elasticsearch) -> None:
    metadata = {f"field {n}": {"of": n} for n in range(2_000)}
    store.write(index_of(), [document("a", "pear", metadata=metadata)], ())
    ((_, index),) = client.indices.get_mapping(index=f"{prefix}-ns.v1").items()
    assert len(index["mappings"]["properties"]) < 25
    with pytest.raises(Exception, match="strict_dynamic_mapping"):
        client.index(index=f"{prefix}-ns.v1", document={"unknown": 1})
    (ranking,) = store.search_text("ns", ["pear"], Search(depth=1, filters={"field 7.of": 7}))
    assert [hit.document_id for hit in ranking.hits] == ["a"]


def test_another_analyser_or_no_vectors_is_a_manifest_mismatch(
    store: ElasticsearchStore, prefix: str
) -> None:
    for options, difference in (
        ({"analyser": HUNSPELL}, "analyser of the store is 'chorale', asked for {"),
        ({"vectors": True}, "vectors is False, asked for True"),
    ):
        with opened(prefix, **options) as other:
            with pytest.raises(ManifestMismatch, match=f"{difference}.*chorale index --rebuild"):
                other.create(index_of())
            # It can still be searched with its own analyser.
            assert passage_ids(other, "pear") == []


def test_an_analyser_that_the_server_lacks_is_named(prefix: str) -> None:
    unknown_part = {"analyzer": {"chorale": {"type": "custom", "tokenizer": "klingon"}}}
    for analyser in ("klingon", unknown_part):
        message = r"`analyser` is not on the server.*use `chorale`.*klingon"
        with opened(prefix, analyser=analyser) as store, pytest.raises(BadIndex, match=message):
            store.create(index_of())
    with opened(prefix, analyser="klingon") as store:
        assert not store.has(index_of())


def test_an_index_that_somebody_deletes_is_missing_until_it_is_created_again(
    store: ElasticsearchStore, prefix: str, client: Elasticsearch
) -> None:
    store.write(index_of(), [document("a", "pear")], ())
    client.indices.delete(index=f"{prefix}-ns.v1")
    for call in (
        lambda: store.write(index_of(), [document("b", "pear")], ()),
        lambda: passage_ids(store, "pear"),
    ):
        with pytest.raises(BadIndex, match="no such index"):
            call()
    assert not store.has(index_of())
    store.create(index_of())
    store.write(index_of(), [document(f"d{n}", "pear") for n in range(300)], ())
    store.write(index_of(), (), [f"d{n}" for n in range(1, 300)])
    assert passage_ids(store, "pear") == ["d0#0"]


def test_an_interrupted_batch_is_complete_after_a_repetition(prefix: str) -> None:
    with TcpProxy(host_and_port()) as proxy, opened(prefix) as watching:
        url = f"http://127.0.0.1:{proxy.port}"
        with opened(prefix, url=url, write_timeout_s=30) as store:
            store.create(index_of())
            store.write(index_of(), [document("a", "old", "old")], ())
            bodies = [document("a", "new pear"), *(document(f"d{n}", "pear " * 2_000) for n in range(200))]

            def cut_off() -> None:
                proxy.is_refusing = True
                proxy.cut()

            def write_on() -> None:
                for n in range(50):
                    store.write(index_of(), [*bodies, document("again", str(n))], ())

            threading.Timer(0.15, cut_off).start()
            with pytest.raises(StageFailure):
                write_on()
            # Nothing is visible half written.
            assert passage_ids(watching, "old") in (["a#0", "a#1"], [])
            proxy.is_refusing = False
            store.write(index_of(), bodies, ())
            assert passage_ids(watching, "old") == []
            assert len(passage_ids(watching, "pear")) == 201
            store.drop(index_of())


def test_a_namespace_without_vectors_is_searched_by_words(store: ElasticsearchStore) -> None:
    words = index_of("words", dimension=0)
    store.create(words)
    store.write(words, [Document("a", "docs", "", (Passage("a#0", 0, "pear"),))], ())
    assert passage_ids(store, "pear", "words") == ["a#0"]
