"""The namespaces and collections of a Weaviate, and writing to them, also after interruptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from weaviate.collections.classes.batch import DeleteManyReturn

from models.declarations.engines import WeaviateEndpoint
from models.errors import BadIndex, StoreUnavailable
from search.engines.weaviate.store import WeaviateStore
from tests.contracts.store_documents import document
from tests.support.servers.weaviate_server import (
    delete_tenants,
    own_collection,
    shared_endpoint,
    shared_weaviate,
)
from tests.support.stores.known_index import index_of
from tests.support.stores.weaviate_namespaces import hit_ids


def vector_index(endpoint: WeaviateEndpoint) -> dict[str, Any]:
    """The server's own words about the collection."""
    collection = httpx.get(f"{endpoint.url}/v1/schema/{endpoint.collection}Passage", timeout=30).json()
    index: dict[str, Any] = collection["vectorConfig"]["default"]["vectorIndexConfig"]
    kinds = [kind for kind in ("rq", "bq", "sq", "pq") if index.get(kind, {}).get("enabled")]
    return {**index, "quantisers": kinds}


class TestNamespaces:
    def test_a_removed_tenant_raises_bad_index_until_the_namespace_is_created_again(
        self, store: WeaviateStore
    ) -> None:
        store.create(index_of())
        store.write(index_of(), [document("a", "pear")], ())
        delete_tenants(store._endpoint)
        for call in (
            lambda: hit_ids(store, "pear"),
            lambda: store.write(index_of(), [document("a", "pear")], ()),
            lambda: store.warm("ns"),
        ):
            with pytest.raises(BadIndex, match="ns"):
                call()
        assert not store.has(index_of())
        store.create(index_of())
        assert hit_ids(store, "pear") == []


class TestDeclaration:
    def test_fixed_options_of_a_collection_must_match_the_declaration(self, store: WeaviateStore) -> None:
        store.create(index_of())
        collection = store._endpoint.collection
        changed = {"ef_construction": 64, "max_connections": 16, "quantiser": "rq", "replicas": 1}
        for name, value in changed.items():
            other = WeaviateStore(shared_endpoint(collection=collection, **{name: value}))
            with pytest.raises(BadIndex, match=f"{name} .*declare"):
                other.create(index_of())
            other.close()

    @pytest.mark.parametrize("quantiser", ["rq", "bq"])
    def test_a_quantised_namespace_is_searched_and_opened_again(self, quantiser: str) -> None:
        with shared_weaviate(quantiser=quantiser) as quantised:
            for _ in range(2):
                quantised.create(index_of())
            quantised.write(index_of(), [document("a", "pear")], ())
            assert hit_ids(quantised, "pear") == ["a#0"]
            assert vector_index(quantised._endpoint)["quantisers"] == [quantiser]

    def test_more_replicas_than_nodes_are_refused_with_their_number(self) -> None:
        with (
            shared_weaviate(replicas=9) as replicated,
            pytest.raises(
                BadIndex, match=r"replicas = 9 needs 10 nodes, and Weaviate at \S+ has \d+: declare"
            ),
        ):
            replicated.create(index_of())

    def test_changeable_options_of_a_collection_are_updated(self, store: WeaviateStore) -> None:
        store.create(index_of())
        store.write(index_of(), [document("a", "pear")], ())
        endpoint = shared_endpoint(collection=store._endpoint.collection, ef=77, dynamic_ef_max=300)
        other = WeaviateStore(endpoint)
        other.create(index_of())
        other.close()
        index = vector_index(endpoint)
        assert (index["ef"], index["dynamicEfMax"], index["efConstruction"]) == (77, 300, 128)
        assert (index["distance"], index["quantisers"]) == ("cosine", [])
        store.create(index_of())

    def test_a_foreign_collection_is_left_unchanged(self) -> None:
        with own_collection() as endpoint:
            foreign = {"class": f"{endpoint.collection}Passage"}
            httpx.post(f"{endpoint.url}/v1/schema", json=foreign, timeout=30).raise_for_status()
            store = WeaviateStore(endpoint)
            with pytest.raises(BadIndex, match="not one of Chorale's"):
                store.create(index_of())
            store.close()


class TestWriting:
    def test_writing_a_document_again_removes_what_an_interrupted_batch_left(
        self, store: WeaviateStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.create(index_of())
        store.write(index_of(), [document("a", "pear")], ())
        with monkeypatch.context() as cut:
            cut.setattr(store, "_send", then_cut_off(store._send))
            with pytest.raises(StoreUnavailable):
                store.write(index_of(), [document("a", *["plum"] * 6, revision="2")], ())
        store.write(index_of(), [document("a", "cherry", "cherry", revision="3")], ())
        assert hit_ids(store, "plum") == []
        assert hit_ids(store, "cherry") == ["a#0", "a#1"]
        assert len([*store.entries(index_of())]) == 2

    def test_a_deletion_that_deletes_nothing_ends(
        self, store: WeaviateStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.create(index_of())
        answers = [DeleteManyReturn(failed=10_000, matches=10_000, objects=None, successful=0)] * 2

        async def delete_many(*_: Any, **__: Any) -> DeleteManyReturn[None]:
            return answers.pop()  # a third call would fail: the deletion must not go on for ever

        executor = "weaviate.collections.data.executor._DataCollectionExecutor"
        monkeypatch.setattr(f"{executor}.delete_many", delete_many)
        with pytest.raises(StoreUnavailable, match="deleted 0 of 10,000"):
            store.write(index_of(), (), ["a"])

    def test_half_a_character_in_metadata_is_replaced(self, store: WeaviateStore) -> None:
        store.create(index_of())
        half = document("half", "pear", metadata={"source_type": "\ud800", "colour": "\ud800"})
        store.write(index_of(), [half, document("c", "pear")], ())
        assert hit_ids(store, "pear") == ["c#0", "half#0"]


def then_cut_off(written: Callable[..., object]) -> Callable[..., None]:
    def cut_off(*arguments: Any) -> None:
        written(*arguments)
        raise StoreUnavailable("cut off")

    return cut_off
