"""Weaviate keeps every promise of a store."""

from __future__ import annotations

import random
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from weaviate.collections.classes.batch import DeleteManyReturn

from models.documents import Document, Matrix, Passage
from models.errors import BadIndex, InvalidAnswer, NotConfigured, PartlyWritten, StoreUnavailable
from search.filters import compile_filters
from search.protocol import Fuses, Search, Store
from search.weaviate import namespace_records as registry
from search.weaviate.store import WeaviateStore
from tests.contracts.store import StoreContract
from tests.contracts.store_documents import EAST, MANIFEST, NORTH, document, questions
from tests.support.servers.weaviate_server import activity, shared_endpoint, shared_weaviate


@pytest.fixture(scope="module")
def opened() -> Iterator[WeaviateStore]:
    with shared_weaviate() as store:
        yield store


@pytest.fixture
def store(opened: WeaviateStore) -> Iterator[WeaviateStore]:
    yield opened
    for state in opened.namespaces():
        opened.drop(state.name)


class TestWeaviateStore(StoreContract):
    """The contract, on one pair of collections."""


def found(store: Store, text: str, **options: Any) -> list[str]:
    (ranking,) = store.search_text("ns", [text], Search(**{"depth": 10, "timeout_s": 30.0, **options}))
    return [hit.passage_id for hit in ranking.hits]


def normalised(rows: Matrix) -> Matrix:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def vector_documents(vectors: Matrix) -> list[Document]:
    return [
        Document(f"d{i:05}", "docs", "", (Passage(f"d{i:05}#0", 0, "x", vector=vector),), {"half": i % 2})
        for i, vector in enumerate(vectors)
    ]


class TestFilters:
    def test_any_filter_on_any_metadata_matches_as_in_other_stores(self, store: WeaviateStore) -> None:
        store.create("ns", MANIFEST)
        chance = random.Random(7)
        values: list[Any] = [1, -1, 0, 2.5, 1e300, 2**53 + 1, True, False, "x", "X y ", " x", "a*b", "", "ß"]
        values += ["2024-05-01", "2024-05-02", "2024-05-01T23:30:00Z", "2024-05-02T00:30:00+01:00", None, []]
        values += [["x", "2024-05-03"], [1, 3], {"deep": 4}, "long " * 100]
        held = [
            document(
                f"d{i:02}", "pear", metadata={name: chance.choice(values) for name in ("a", "b", "käse ?")}
            )
            for i in range(60)
        ]
        store.upsert("ns", held)
        wanted = [value for value in values if value not in (None, {"deep": 4})]
        operators = ["gt", "gte", "lt", "lte", "contains", "not", "exists"]
        tried = 0
        for _ in range(150):
            name, operator = chance.choice(["a", "b", "käse ?", "a.deep"]), chance.choice(operators)
            condition = chance.choice([chance.choice(wanted), {operator: chance.choice(wanted)}])
            filters = {name: condition, "source": "docs"}
            compiled = compile_filters(filters)
            expected = [
                f"{one.document_id}#0" for one in held if compiled.matches({"source": "docs", **one.metadata})
            ]
            assert found(store, "pear", depth=100, filters=filters) == expected, filters
            tried += bool(expected)
        assert tried > 40

    def test_wildcards_in_a_part_are_ordinary_characters(self, store: WeaviateStore) -> None:
        store.create("ns", MANIFEST)
        store.upsert(
            "ns", [document("a", "pear", metadata={"n": "a*b"}), document("b", "pear", metadata={"n": "acb"})]
        )
        assert found(store, "pear", filters={"n": {"contains": "A*"}}) == ["a#0"]
        assert found(store, "pear", filters={"n": {"contains": "a?b"}}) == []


class TestVectors:
    def test_a_small_namespace_is_searched_exactly(self, store: WeaviateStore) -> None:
        chance = np.random.default_rng(5)
        vectors = normalised(chance.normal(size=(1_500, 32)).astype(np.float32))
        asked = normalised(chance.normal(size=(20, 32)).astype(np.float32))
        store.create("ns", replace(MANIFEST, dimension=32))
        store.upsert("ns", vector_documents(vectors))
        exact = np.argsort(-(asked @ vectors.T), axis=1)[:, :10]
        for ranking, expected in zip(
            store.search_vectors("ns", asked, Search(depth=10, timeout_s=30)), exact, strict=True
        ):
            assert [hit.document_id for hit in ranking.hits] == [f"d{i:05}" for i in expected]
        half = np.argsort(-(asked @ vectors[1::2].T), axis=1)[:, :10] * 2 + 1
        filtered = store.search_vectors("ns", asked, Search(depth=10, filters={"half": 1}, timeout_s=30))
        for ranking, expected in zip(filtered, half, strict=True):
            assert [hit.document_id for hit in ranking.hits] == [f"d{i:05}" for i in expected]

    def test_hnsw_finds_nearly_all_in_a_large_namespace(self) -> None:
        chance = np.random.default_rng(6)
        vectors = normalised(chance.normal(size=(2_000, 32)).astype(np.float32))
        asked = normalised(chance.normal(size=(50, 32)).astype(np.float32))
        with shared_weaviate(flat_search_cutoff=0) as store:
            store.create("ns", replace(MANIFEST, dimension=32))
            store.upsert("ns", vector_documents(vectors))
            exact = np.argsort(-(asked @ vectors.T), axis=1)[:, :10]
            hits = sum(
                len({hit.document_id for hit in ranking.hits} & {f"d{i:05}" for i in expected})
                for ranking, expected in zip(
                    store.search_vectors("ns", asked, Search(depth=10, timeout_s=30)), exact, strict=True
                )
            )
        assert hits >= 0.95 * 500


class TestHybrid:
    def test_text_and_vector_are_fused_with_the_given_weight(self, store: WeaviateStore) -> None:
        assert isinstance(store, Fuses)
        store.create("ns", MANIFEST)
        store.upsert("ns", [document("text", "pear", vectors=(NORTH,)), document("vector", "plum")])
        # `text` has both ranks and one full score, `vector` only the other full score; by ranks a/61 + (1 - a)/60
        # exceeds a/60 except for a = 1.
        expected = {
            "relative": {0.0: "text", 0.2: "text", 0.8: "vector", 1.0: "vector"},
            "ranked": {0.0: "text", 0.2: "text", 0.8: "text", 1.0: "vector"},
        }
        fusions: tuple[Literal["relative", "ranked"], ...] = ("relative", "ranked")
        for fusion in fusions:
            for alpha, first in expected[fusion].items():
                (ranking,) = store.search_hybrid(
                    "ns", ["pear"], questions(EAST), Search(depth=5, timeout_s=30), alpha=alpha, fusion=fusion
                )
                assert ranking.hits[0].document_id == first, (fusion, alpha)

    def test_alpha_0_gives_the_order_of_the_text_search(self, store: WeaviateStore) -> None:
        chance = random.Random(11)
        texts = [" ".join(f"w{chance.randrange(60)}" for _ in range(20)) for _ in range(1_000)]
        store.create("ns", MANIFEST)
        store.upsert("ns", [document(f"d{i:04}", text) for i, text in enumerate(texts)])
        (deep,) = store.search_text("ns", ["w1 w2 w3"], Search(depth=1_000, timeout_s=30))
        (ranking,) = store.search_hybrid(
            "ns", ["w1 w2 w3"], questions(EAST), Search(depth=10, timeout_s=30), alpha=0.0, fusion="ranked"
        )
        scores = {hit.passage_id: hit.score for hit in deep.hits}
        # Weaviate chooses the order of equal scores.
        assert [scores[hit.passage_id] for hit in ranking.hits] == [hit.score for hit in deep.hits[:10]]

    def test_a_question_without_a_term_uses_only_its_vector(self, store: WeaviateStore) -> None:
        store.create("ns", MANIFEST)
        store.upsert("ns", [document("a", "pear"), document("b", "pear", vectors=(NORTH,))])
        (ranking,) = store.search_hybrid(
            "ns", ["the of"], questions(NORTH), Search(depth=1, timeout_s=30), alpha=0.0, fusion="relative"
        )
        assert [hit.document_id for hit in ranking.hits] == ["b"]


class TestWriting:
    def test_a_document_that_cannot_be_written_is_named_and_the_others_are_written(
        self, store: WeaviateStore
    ) -> None:
        store.create("ns", MANIFEST)
        bad = [
            document("bad metadata", "pear", metadata={"a": {1, 2}}),
            document("bad text", "pear \ud800"),
            document("not a number", "pear", metadata={"a": float("nan")}),
        ]
        with pytest.raises(PartlyWritten) as raised:
            store.upsert("ns", [document("a", "pear"), *bad, document("b", "pear", "plum")])
        assert set(raised.value.failures) == {"bad metadata", "bad text", "not a number"}
        assert raised.value.generation == store.generation("ns")
        assert found(store, "pear") == ["a#0", "b#0"]
        assert store.revisions("ns", "docs") == {"a": "1", "b": "1"}

    def test_writing_a_document_again_removes_what_an_interrupted_batch_left(
        self, store: WeaviateStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.create("ns", MANIFEST)
        store.upsert("ns", [document("a", "pear")])
        with monkeypatch.context() as cut:
            cut.setattr(store, "_send", then_cut_off(store._send))
            with pytest.raises(StoreUnavailable):
                store.upsert("ns", [document("a", *["plum"] * 6, revision="2")])
        # The passages were written, their head is still the old one.
        assert store.revisions("ns", "docs") == {"a": "1"}
        store.upsert("ns", [document("a", "cherry", "cherry", revision="3")])
        assert found(store, "plum") == []
        assert found(store, "cherry") == ["a#0", "a#1"]
        assert [state.passages for state in store.namespaces()] == [2]

    def test_a_rebuild_keeps_the_last_of_two_equal_ids(
        self, store: WeaviateStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("search.weaviate.namespace_lifecycle._REBUILD_BATCH", 1)
        store.rebuild("ns", MANIFEST, [document("a", "pear", "pear", "pear"), document("a", "plum")])
        assert found(store, "pear") == []
        assert found(store, "plum") == ["a#0"]

    def test_a_deletion_that_deletes_nothing_ends(
        self, store: WeaviateStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.create("ns", MANIFEST)
        asked: list[int] = []

        async def delete_many(*_: Any, **__: Any) -> DeleteManyReturn[None]:
            asked.append(1)
            assert len(asked) < 3, "it goes on for ever"
            return DeleteManyReturn(failed=10_000, matches=10_000, objects=None, successful=0)

        monkeypatch.setattr(
            "weaviate.collections.data.executor._DataCollectionExecutor.delete_many", delete_many
        )
        with pytest.raises(StoreUnavailable, match="deleted 0 of 10,000"):
            store.delete("ns", ["a"])

    def test_long_listings_are_complete(self, store: WeaviateStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("search.weaviate.lookups._LISTED_AT_ONCE", 7)
        monkeypatch.setattr("search.weaviate.lookups._LISTED_ABOUT", 100)
        store.create("ns", MANIFEST)
        store.upsert("ns", [document(f"d{i}", revision=str(i)) for i in range(60)])
        assert store.revisions("ns", "docs") == {f"d{i}": str(i) for i in range(60)}

    def test_a_store_without_texts_refuses_to_show_them(self) -> None:
        with shared_weaviate(texts=False) as store:
            store.create("ns", MANIFEST)
            store.upsert("ns", [document("a", "pear")])
            assert found(store, "pear") == ["a#0"]
            with pytest.raises(NotConfigured, match="texts = true"):
                store.texts("ns", ["a#0"])
            with pytest.raises(NotConfigured, match="texts = true"):
                store.list_documents("ns", Search(depth=1), order_by="year", descending=True)


class TestRebuilding:
    def test_searches_go_on_during_a_rebuild(self, store: WeaviateStore) -> None:
        def version(first: int) -> list[Document]:
            return [document(f"d{n:02}", "pear") for n in range(first, first + 40)]

        store.create("ns", MANIFEST)
        generation = store.upsert("ns", version(0))
        seen: list[list[str]] = []
        wrong: list[Exception] = []
        ended = threading.Event()

        def search() -> None:
            while not ended.is_set():
                try:
                    (ranking,) = store.search_vectors("ns", questions(EAST), Search(depth=100, timeout_s=30))
                    seen.append(found(store, "pear", depth=100))
                    seen.append([hit.passage_id for hit in ranking.hits])
                    listed = store.list_documents(
                        "ns", Search(depth=100, timeout_s=30), order_by="n", descending=True
                    )
                    seen.append([hit.passage_id for hit in listed.hits])
                    assert len(store.texts("ns", ["d10#0", "d39#0"], timeout_s=30)) == 2
                except Exception as error:
                    wrong.append(error)

        searching = [threading.Thread(target=search) for _ in range(3)]
        for thread in searching:
            thread.start()
        for n in range(1, 4):
            assert store.rebuild("ns", replace(MANIFEST, language="it"), version(n)) == generation + n
        last = found(store, "pear", depth=100)
        ended.set()
        for thread in searching:
            thread.join(60)
        assert wrong == []
        versions = [[f"{one.document_id}#0" for one in version(n)] for n in range(4)]
        assert last == versions[3]
        # Each search saw one build whole.
        assert [one for one in seen if one not in versions] == []
        assert {versions.index(one) for one in seen} >= {0, 1, 2}
        assert len(tenants(store)) == 1

    def test_a_rebuild_may_change_the_dimension_or_create_the_namespace(self, store: WeaviateStore) -> None:
        turned = normalised(np.ones((3, 7), np.float32))
        generation = store.rebuild("ns", replace(MANIFEST, dimension=7), vector_documents(turned))
        again = store.rebuild("ns", MANIFEST, [document("a", "pear", vectors=(NORTH,))])
        (ranking,) = store.search_vectors("ns", questions(NORTH), Search(depth=5, timeout_s=30))
        assert [hit.passage_id for hit in ranking.hits] == ["a#0"]
        assert [state.passages for state in store.namespaces()] == [1]
        assert again == store.generation("ns") == generation + 1

    def test_a_failed_rebuild_changes_nothing_and_the_next_removes_its_tenant(
        self, store: WeaviateStore
    ) -> None:
        store.create("ns", MANIFEST)
        generation = store.upsert("ns", [document("a", "pear")])

        def documents() -> Iterator[Document]:
            yield document("b", "pear")
            raise InvalidAnswer("the model is gone")

        for _ in range(2):
            with pytest.raises(InvalidAnswer, match="the model is gone"):
                store.rebuild("ns", MANIFEST, documents())
        assert (found(store, "pear"), store.generation("ns")) == (["a#0"], generation)
        assert len(tenants(store)) == 2
        with pytest.raises(PartlyWritten, match="bad"):
            store.rebuild("ns", MANIFEST, [document("bad", "pear \ud800"), document("c", "pear")])
        assert found(store, "pear") == ["c#0"]
        assert len(tenants(store)) == 1
        assert store.upsert("ns", [document("d", "pear")]) == generation + 2
        assert store.drop("ns")
        assert tenants(store) == []


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

    def test_an_unknown_namespace_is_named_without_the_existing_ones(self, store: WeaviateStore) -> None:
        store.create("payroll", MANIFEST)
        with pytest.raises(BadIndex, match="no namespace 'ns': `chorale namespaces list`") as raised:
            found(store, "pear")
        assert "payroll" not in str(raised.value)

    def test_a_generation_can_be_raised_and_never_falls(self, store: WeaviateStore) -> None:
        store.create("ns", MANIFEST)
        first = store.generation("ns")
        store.raise_generation("ns", first + 40)
        store.raise_generation("ns", first + 3)
        assert store.generation("ns") == first + 40
        assert store.upsert("ns", [document("a", "pear")]) == first + 41

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


def then_cut_off(written: Callable[..., object]) -> Callable[..., None]:
    def cut_off(*given: Any) -> None:
        written(*given)
        raise StoreUnavailable("cut off")

    return cut_off


def gone_after(write: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    async def gone(*given: Any) -> None:
        await write(*given)
        raise StoreUnavailable("gone")

    return gone


def tenants(store: WeaviateStore) -> list[str]:
    async def work(client: Any) -> list[str]:
        return sorted(await client.collections.use(f"{store._endpoint.collection}Passage").tenants.get())

    return store._connection.run(work, 30)


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
