"""Elasticsearch and Weaviate written as one notice what somebody deletes directly at the servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from elasticsearch import Elasticsearch

from search.documents.store import DocumentStore
from search.engines.elasticsearch.store import ElasticsearchStore
from search.engines.weaviate.store import WeaviateStore
from search.protocol import Search
from tests.contracts.store_documents import MANIFEST, document
from tests.support.servers.elasticsearch_server import address, corner, opened
from tests.support.servers.weaviate_server import delete_tenants, own_collection
from tests.support.stores.one_engine import held
from tests.support.stores.several_stores import with_readers

Engines = tuple[DocumentStore, dict[str, Callable[[], None]]]


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[Engines]:
    """Both stores written as one, and functions that delete the namespace with the server's own tools."""
    with ExitStack() as held:
        prefix = held.enter_context(corner())
        texts = held.enter_context(opened(prefix))
        endpoint = held.enter_context(own_collection())
        store = with_readers(tmp_path / "documents.db", texts=texts, vectors=WeaviateStore(endpoint))
        held.callback(store.close)
        yield (store, {"texts": lambda: delete_indices(prefix), "vectors": lambda: delete_tenants(endpoint)})


def delete_indices(prefix: str) -> None:
    with Elasticsearch(address()) as client:
        client.indices.delete(index=list(client.indices.get(index=f"{prefix}-ns.*")))


def shown(store: DocumentStore) -> list[set[str]]:
    return [set(held(store, name=name)) for name in store.stores]


@pytest.mark.parametrize("name", ["texts", "vectors"])
@pytest.mark.parametrize("noticed_by", ["the next batch", "the next run", "verify"])
def test_what_was_deleted_at_the_server_is_noticed_and_written_again(
    engines: Engines, name: str, noticed_by: str
) -> None:
    store, delete = engines
    store.create("ns", MANIFEST)
    store.upsert("ns", [document("a", "pear"), document("b", "pear")])
    delete[name]()
    if noticed_by == "the next run":
        store.create("ns", MANIFEST)
        assert set(store.unwritten("ns")) == {"a", "b"}
    if noticed_by == "verify":
        differences = store.verify("ns", mends=True)
        assert {of: differing.missing for of, differing in differences.items() if differing} == {
            name: ["a", "b"]
        }
        assert store.unwritten("ns") == {}
    store.upsert("ns", [document("new", "pear")])
    assert store.settle("ns") == {}
    assert shown(store) == [{"a", "b", "new"}] * 2
    assert not any(store.verify("ns", mends=False).values())


def test_documents_that_the_database_does_not_know_are_deleted_from_both(engines: Engines) -> None:
    store, _ = engines
    store.create("ns", MANIFEST)
    store.upsert("ns", [document("a", "pear")])
    for name, row in store.table.indexes(store.known("ns")).items():
        late = [document(f"late{n}", "pear", source="later") for n in range(300)]
        store.stores[name].write(row.index, late, ())
    differences = store.verify("ns", mends=False)
    assert [len(difference.surplus) for difference in differences.values()] == [300] * 2
    store.verify("ns", mends=True)
    assert shown(store) == [{"a"}] * 2
    for engine in store.stores.values():
        assert isinstance(engine, ElasticsearchStore | WeaviateStore)
        (ranking,) = engine.search_text("ns", ["pear"], Search(depth=10, timeout_s=30))
        assert [hit.document_id for hit in ranking.hits] == ["a"]
