"""The namespaces and collections of a Weaviate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from models.errors import BadIndex, StoreUnavailable
from search.weaviate import namespace_records as registry
from search.weaviate.store import WeaviateStore
from tests.contracts.store_documents import MANIFEST, document
from tests.support.servers.weaviate_server import activity, delete_tenants, own_collection, shared_endpoint
from tests.support.stores.weaviate_namespaces import found, tenants


class TestNamespaces:
    def test_a_deactivated_namespace_stays_closed_until_it_is_searched(self, store: WeaviateStore) -> None:
        for name in ("open", "ns"):
            store.create(name, MANIFEST)
            store.upsert(name, [document("a", "pear")])
        store.deactivate("ns")
        store.warm()
        store.warm("ns")
        store.deactivate("ns")
        assert store.has("ns")
        assert sorted(activity(store._endpoint).values()) == ["COLD", "HOT"]
        assert found(store, "pear") == ["a#0"]
        assert sorted(activity(store._endpoint).values()) == ["HOT", "HOT"]

    def test_a_removed_tenant_raises_bad_index_until_the_namespace_is_created_again(
        self, store: WeaviateStore
    ) -> None:
        store.create("ns", MANIFEST)
        store.upsert("ns", [document("a", "pear")])
        delete_tenants(store._endpoint)
        for call in (
            lambda: found(store, "pear"),
            lambda: store.upsert("ns", [document("a", "pear")]),
            lambda: store.warm("ns"),
        ):
            with pytest.raises(BadIndex, match="ns"):
                call()
        assert not store.has("ns")
        store.create("ns", MANIFEST)
        assert found(store, "pear") == []

    def test_an_interrupted_drop_brings_nothing_back_and_is_finished_by_the_next(
        self, store: WeaviateStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for ends in ("drop", "create", "rebuild"):
            store.create("ns", MANIFEST)
            store.upsert("ns", [document("a", "pear")])
            with monkeypatch.context() as cut:
                cut.setattr(registry, "write", gone_after(registry.write))
                with pytest.raises(StoreUnavailable):
                    store.drop("ns")
            assert not store.has("ns")
            if ends == "drop":
                assert not store.drop("ns")
                assert tenants(store) == []
                store.create("ns", MANIFEST)
            elif ends == "create":
                store.create("ns", MANIFEST)
            else:
                store.rebuild("ns", MANIFEST, [])
            assert found(store, "pear") == []
            assert store.entries("ns") == []
            assert len(tenants(store)) == 1
            store.drop("ns")


class TestDeclaration:
    def test_fixed_options_of_a_collection_must_match_the_declaration(self, store: WeaviateStore) -> None:
        store.create("ns", MANIFEST)
        collection = store._endpoint.collection
        for changed in ({"ef_construction": 64}, {"max_connections": 16}):
            other = WeaviateStore(shared_endpoint(collection=collection, **changed))
            with pytest.raises(BadIndex, match=f"{next(iter(changed))} .*declare"):
                other.create("ns", MANIFEST)
            other.close()

    def test_changeable_options_of_a_collection_are_updated(self, store: WeaviateStore) -> None:
        store.create("ns", MANIFEST)
        store.upsert("ns", [document("a", "pear")])
        endpoint = shared_endpoint(collection=store._endpoint.collection, ef=77, dynamic_ef_max=300)
        other = WeaviateStore(endpoint)
        other.create("ns", MANIFEST)
        other.close()
        collection = httpx.get(f"{endpoint.url}/v1/schema/{endpoint.collection}Passage", timeout=30).json()
        index = collection["vectorConfig"]["default"]["vectorIndexConfig"]
        assert (index["ef"], index["dynamicEfMax"], index["efConstruction"]) == (77, 300, 128)
        assert index["distance"] == "cosine"
        assert not any(index.get(kind, {}).get("enabled") for kind in ("pq", "bq", "sq", "rq"))
        store.create("ns", MANIFEST)

    def test_a_foreign_collection_is_left_unchanged(self) -> None:
        with own_collection() as endpoint:
            foreign = {"class": f"{endpoint.collection}Passage"}
            httpx.post(f"{endpoint.url}/v1/schema", json=foreign, timeout=30).raise_for_status()
            store = WeaviateStore(endpoint)
            with pytest.raises(BadIndex, match="not one of Chorale's"):
                store.create("ns", MANIFEST)
            store.close()


def gone_after(write: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    async def gone(*given: Any) -> None:
        await write(*given)
        raise StoreUnavailable("gone")

    return gone
