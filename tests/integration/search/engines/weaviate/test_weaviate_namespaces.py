"""The namespaces and collections of a Weaviate."""

from __future__ import annotations

import httpx
import pytest

from models.errors import BadIndex
from search.engines.weaviate.store import WeaviateStore
from tests.contracts.store_documents import document
from tests.support.servers.weaviate_server import (
    activity,
    delete_tenants,
    own_collection,
    shared_endpoint,
    shared_weaviate,
)
from tests.support.stores.known_index import index_of
from tests.support.stores.weaviate_namespaces import found


class TestNamespaces:
    def test_a_deactivated_namespace_stays_closed_until_it_is_searched(self, store: WeaviateStore) -> None:
        for name in ("open", "ns"):
            store.create(index_of(name))
            store.write(index_of(name), [document("a", "pear")], ())
        store.deactivate("ns")
        for name in ("open", "ns"):
            store.warm(name)
        store.deactivate("ns")
        assert store.has(index_of())
        assert sorted(activity(store._endpoint).values()) == ["COLD", "HOT"]
        assert found(store, "pear") == ["a#0"]
        assert sorted(activity(store._endpoint).values()) == ["HOT", "HOT"]

    def test_a_removed_tenant_raises_bad_index_until_the_namespace_is_created_again(
        self, store: WeaviateStore
    ) -> None:
        store.create(index_of())
        store.write(index_of(), [document("a", "pear")], ())
        delete_tenants(store._endpoint)
        for call in (
            lambda: found(store, "pear"),
            lambda: store.write(index_of(), [document("a", "pear")], ()),
            lambda: store.warm("ns"),
        ):
            with pytest.raises(BadIndex, match="ns"):
                call()
        assert not store.has(index_of())
        store.create(index_of())
        assert found(store, "pear") == []


class TestDeclaration:
    def test_fixed_options_of_a_collection_must_match_the_declaration(self, store: WeaviateStore) -> None:
        store.create(index_of())
        collection = store._endpoint.collection
        for changed in (
            {"ef_construction": 64},
            {"max_connections": 16},
            {"quantiser": "rq"},
            {"replicas": 1},
        ):
            other = WeaviateStore(shared_endpoint(collection=collection, **changed))
            with pytest.raises(BadIndex, match=f"{next(iter(changed))} .*declare"):
                other.create(index_of())
            other.close()

    @pytest.mark.parametrize("quantiser", ["rq", "bq"])
    def test_a_quantised_namespace_is_searched_and_opened_again(self, quantiser: str) -> None:
        with shared_weaviate(quantiser=quantiser) as quantised:
            for _ in range(2):
                quantised.create(index_of())
            quantised.write(index_of(), [document("a", "pear")], ())
            assert found(quantised, "pear") == ["a#0"]
            address = f"{quantised._endpoint.url}/v1/schema/{quantised._endpoint.collection}Passage"
            index = httpx.get(address, timeout=30).json()["vectorConfig"]["default"]["vectorIndexConfig"]
            assert [kind for kind in ("rq", "bq", "sq", "pq") if index[kind]["enabled"]] == [quantiser]

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
        collection = httpx.get(f"{endpoint.url}/v1/schema/{endpoint.collection}Passage", timeout=30).json()
        index = collection["vectorConfig"]["default"]["vectorIndexConfig"]
        assert (index["ef"], index["dynamicEfMax"], index["efConstruction"]) == (77, 300, 128)
        assert index["distance"] == "cosine"
        assert not any(index.get(kind, {}).get("enabled") for kind in ("pq", "bq", "sq", "rq"))
        store.create(index_of())

    def test_a_foreign_collection_is_left_unchanged(self) -> None:
        with own_collection() as endpoint:
            foreign = {"class": f"{endpoint.collection}Passage"}
            httpx.post(f"{endpoint.url}/v1/schema", json=foreign, timeout=30).raise_for_status()
            store = WeaviateStore(endpoint)
            with pytest.raises(BadIndex, match="not one of Chorale's"):
                store.create(index_of())
            store.close()
