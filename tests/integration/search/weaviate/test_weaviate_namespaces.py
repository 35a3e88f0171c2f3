"""The namespaces and collections of a Weaviate."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from models.errors import BadIndex, StoreUnavailable
from search.protocol import Search
from search.weaviate import namespace_records as registry
from search.weaviate.store import WeaviateStore
from tests.contracts.store_documents import EAST, MANIFEST, NORTH, document, questions
from tests.support.servers.weaviate_server import activity, shared_endpoint
from tests.support.stores.weaviate_namespaces import found, tenants


class TestNamespaces:
    def test_a_deactivated_namespace_stays_closed_until_it_is_searched(self, store: WeaviateStore) -> None:
        for name in ("open", "ns"):
            store.create(name, MANIFEST)
            generation = store.upsert(name, [document("a", "pear")])
        store.deactivate("ns")
        closed, opened = store.namespaces()
        assert (closed.name, closed.documents, closed.generation) == ("ns", 0, generation)
        assert (opened.name, opened.documents) == ("open", 1)
        store.warm()
        store.warm("ns")
        store.deactivate("ns")
        store.raise_generation("ns", generation + 1)
        assert store.generation("ns") == generation + 1
        assert sorted(activity(store._endpoint).values()) == ["COLD", "HOT"]
        assert found(store, "pear") == ["a#0"]
        assert sorted(activity(store._endpoint).values()) == ["HOT", "HOT"]

    def test_a_removed_tenant_raises_bad_index_until_the_namespace_is_created_again(
        self, store: WeaviateStore
    ) -> None:
        store.create("ns", MANIFEST)
        before = store.upsert("ns", [document("a", "pear")])
        remove_tenant(store, *tenants(store))
        with pytest.raises(BadIndex, match="ns"):
            found(store, "pear")
        with pytest.raises(BadIndex, match="ns"):
            store.upsert("ns", [document("a", "pear")])
        with pytest.raises(BadIndex, match="ns"):
            store.warm("ns")
        assert [state.name for state in store.namespaces()] == ["ns"]
        store.create("ns", MANIFEST)
        assert found(store, "pear") == []
        assert store.upsert("ns", [document("a", "pear")]) > before

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
            assert [state.name for state in store.namespaces()] == []
            if ends == "drop":
                assert not store.drop("ns")
                assert tenants(store) == []
                store.create("ns", MANIFEST)
            elif ends == "create":
                store.create("ns", MANIFEST)
            else:
                store.rebuild("ns", MANIFEST, [])
            assert found(store, "pear") == []
            assert store.revisions("ns", "docs") == {}
            assert len(tenants(store)) == 1
            store.drop("ns")

    def test_concurrent_searches_of_two_namespaces_never_mix(self, store: WeaviateStore) -> None:
        for name in ("one", "two"):
            store.create(name, MANIFEST)
            store.upsert(name, [document(f"{name}{i}", "pear", vectors=(EAST,)) for i in range(5)])
        crossed: list[str] = []
        done: list[int] = []

        def hammer(name: str) -> None:
            for _ in range(50):
                rankings = store.search_text(name, ["pear"] * 2, Search(depth=9, timeout_s=30))
                rankings += store.search_vectors(name, questions(EAST, NORTH), Search(depth=9, timeout_s=30))
                for hit in (hit for ranking in rankings for hit in ranking.hits):
                    done.append(1)
                    if not hit.document_id.startswith(name):
                        crossed.append(hit.document_id)

        threads = [threading.Thread(target=hammer, args=(name,)) for name in ("one", "two") * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(done), crossed) == (4 * 50 * 4 * 5, [])


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
        other = WeaviateStore(
            shared_endpoint(collection=store._endpoint.collection, ef=77, dynamic_ef_max=300)
        )
        other.create("ns", MANIFEST)
        index = vector_index(other)
        other.close()
        assert (index.ef, index.dynamic_ef_max, index.ef_construction) == (77, 300, 128)
        assert index.quantizer is None
        assert index.distance_metric == "cosine"
        store.create("ns", MANIFEST)

    def test_a_foreign_collection_is_left_unchanged(self, store: WeaviateStore) -> None:
        endpoint = shared_endpoint()
        foreign = WeaviateStore(endpoint)
        make_collection(foreign, f"{endpoint.collection}Passage")
        try:
            with pytest.raises(BadIndex, match="not one of Chorale's"):
                foreign.create("ns", MANIFEST)
        finally:
            delete_collections(foreign)
            foreign.close()


def gone_after(write: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    async def gone(*given: Any) -> None:
        await write(*given)
        raise StoreUnavailable("gone")

    return gone


def remove_tenant(store: WeaviateStore, name: str) -> None:
    async def work(client: Any) -> None:
        await client.collections.use(f"{store._endpoint.collection}Passage").tenants.remove(name)

    store._connection.run(work, 30)


def vector_index(store: WeaviateStore) -> Any:
    async def work(client: Any) -> Any:
        config = await client.collections.use(f"{store._endpoint.collection}Passage").config.get()
        return config.vector_config["default"].vector_index_config

    return store._connection.run(work, 30)


def make_collection(store: WeaviateStore, name: str) -> None:
    async def work(client: Any) -> None:
        await client.collections.create(name)

    store._connection.run(work, 30)


def delete_collections(store: WeaviateStore) -> None:
    async def work(client: Any) -> None:
        names = [f"{store._endpoint.collection}{kind}" for kind in ("Passage", "Namespace")]
        await client.collections.delete(names)

    store._connection.run(work, 30)
