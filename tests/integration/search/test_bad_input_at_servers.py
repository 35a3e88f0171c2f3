"""Invalid declarations and documents at real servers: each gives one sentence that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from elasticsearch import Elasticsearch

from models.errors import (
    BadIndex,
    InvalidAnswer,
    NotConfigured,
    PartlyWritten,
    StoreTimeout,
    StoreUnavailable,
)
from search.documents.store import DocumentStore, Rebuilding
from search.engines.elasticsearch.store import ElasticsearchStore
from search.engines.weaviate import connection
from search.engines.weaviate.store import WeaviateStore
from search.protocol import Search
from tests.contracts.store_documents import EAST, MANIFEST, document, questions
from tests.support.servers.elasticsearch_server import address, corner, host_and_port, opened
from tests.support.servers.weaviate_server import shared_endpoint, shared_weaviate
from tests.support.stores.known_index import index_of, with_known_indexes
from tests.support.stores.several_stores import with_readers


@pytest.fixture(scope="module")
def texts() -> Iterator[ElasticsearchStore]:
    with corner() as prefix, opened(prefix) as store:
        yield store


@pytest.fixture(scope="module")
def vectors() -> Iterator[WeaviateStore]:
    with shared_weaviate() as store:
        yield store


@pytest.fixture
def both(texts: ElasticsearchStore, vectors: WeaviateStore, tmp_path: Path) -> Iterator[DocumentStore]:
    store = with_readers(tmp_path / "documents.db", texts=texts, vectors=vectors)
    store.create("ns", MANIFEST)
    yield store
    store.drop("ns")
    store.table.close()


BAD = [
    document("fifty megabytes", "pear " * 10_000_000),
    document("wrong type", "pear", metadata={"when": {1, 2}}),
    document("no number", "pear", metadata={"x": float("nan")}),
    document("large metadata", "pear", metadata={"blob": "x" * 50_000_000}),
]
REASONS = {
    "fifty megabytes": "passage 'fifty megabytes#0' has 50,000,000 characters; at most 5,000,000: split the document",
    "wrong type": "its metadata is not JSON: Object of type set is not JSON serializable",
    "no number": "its metadata is not JSON: Out of range float values are not JSON compliant",
    # Twelve characters surround the blob: {"blob": "…"}.
    "large metadata": "its metadata has 50,000,012 characters; at most 5,000,000: split the document",
}


def document_ids(store: object) -> list[str]:
    if isinstance(store, ElasticsearchStore):
        (ranking,) = store.search_text("ns", ["pear"], Search(depth=10, timeout_s=30))
    else:
        assert isinstance(store, WeaviateStore)
        (ranking,) = store.search_vectors("ns", questions(EAST), Search(depth=10, timeout_s=30))
    return [hit.document_id for hit in ranking.hits]


def test_documents_that_no_server_takes_are_named_and_the_others_are_in_every_store(
    both: DocumentStore,
) -> None:
    both.upsert("ns", [document("fifty megabytes", "old pear")])
    with pytest.raises(PartlyWritten) as raised:
        both.upsert("ns", [document("a", "pear"), *BAD, document("z", "pear")])
    assert raised.value.failures == REASONS
    assert raised.value.generation == both.generation("ns")
    for store in both.stores.values():
        assert sorted(document_ids(store)) == ["a", "fifty megabytes", "z"], (
            "a refused document stays as it was"
        )
    # None of the new ones is kept, else each run would retry it.
    assert both.revisions("ns", "docs").keys() == {"a", "fifty megabytes", "z"}
    assert both.unwritten("ns") == {}
    begun = Rebuilding(both, "ns", MANIFEST)
    with pytest.raises(PartlyWritten) as raised:
        begun.upsert("ns", [*BAD, document("z", "pear")])
    assert raised.value.failures == REASONS
    begun.finish()
    assert [document_ids(store) for store in both.stores.values()] == [["z"]] * 2


def test_an_address_of_another_server_is_named() -> None:
    endpoint = shared_endpoint()
    message = f"{endpoint.url} is not Elasticsearch 8 or 9: check the store's url, and its kind"
    with opened("chorale", url=endpoint.url) as texts, pytest.raises(InvalidAnswer, match=message):
        texts.search_text("ns", ["pear"], Search(depth=1, timeout_s=30))
    host, port = host_and_port()
    for options, failure, message in (
        ({"url": address()}, InvalidAnswer, "is not Weaviate: check the store's `url`"),
        ({"grpc_host": host, "grpc_port": port}, StoreTimeout, "is `grpc_port` another server's"),
        ({"grpc_port": 1}, StoreUnavailable, "`grpc_port`"),
        ({"url": "http://127.0.0.1:1"}, StoreUnavailable, "`url` and `grpc_port`"),
    ):
        store = with_known_indexes(WeaviateStore(shared_endpoint(**options)))
        with pytest.raises(failure, match=message):
            store.search_text("ns", ["pear"], Search(depth=1, timeout_s=2 if failure is StoreTimeout else 30))
        store.close()


def test_a_weaviate_that_is_too_old_is_named_with_the_version_that_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "OLDEST", (99, 0))
    with shared_weaviate() as store, pytest.raises(NotConfigured, match=r"is \d+\.\d+\.\d+; 99\.0 or newer"):
        store.has(index_of())


def test_an_index_of_another_layout_is_named() -> None:
    with corner() as prefix, opened(prefix) as store, Elasticsearch(address()) as client:
        properties = {"title": {"type": "text"}}
        client.indices.create(index=f"{prefix}-ns.v1", mappings={"properties": properties})
        for call in (
            lambda: store.search_text("ns", ["pear"], Search(depth=1, timeout_s=30)),
            lambda: store.create(index_of()),
            lambda: store.write(index_of(), [document("a", "pear")], ()),
        ):
            with pytest.raises(BadIndex, match=r"ns\.v1 .* not of this version's layout .* --rebuild`"):
                call()
