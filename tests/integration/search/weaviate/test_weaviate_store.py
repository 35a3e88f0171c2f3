"""Weaviate keeps every promise of a store; filters, vectors and hybrid search."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

from assembly.kinds import BUILT_IN
from fusion.candidates import fuse_rankings
from models.fusion_method import BranchRanking
from search.filters import compile_filters
from search.protocol import Search, Store
from search.weaviate.store import WeaviateStore
from tests.contracts.store import StoreContract
from tests.contracts.store_documents import MANIFEST, NORTH, document, questions
from tests.contracts.store_rebuilding import RebuildingContract
from tests.contracts.store_searches import asking
from tests.support.servers.weaviate_server import shared_weaviate
from tests.support.stores.weaviate_namespaces import found, normalised, vector_documents


class TestWeaviateStore(StoreContract, RebuildingContract):
    """The contracts, on one pair of collections."""

    def seen(self, store: Store) -> list[list[str]]:
        listed = store.list_documents("ns", asking(depth=100), order_by="n", descending=True)
        return [*super().seen(store), [hit.passage_id for hit in listed.hits]]


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
    @pytest.mark.parametrize("fusion", ["relative", "ranked"])
    @pytest.mark.parametrize("alpha", [0.25, 0.75])
    def test_our_presets_give_the_scores_of_its_own_fusion(
        self, store: WeaviateStore, fusion: Literal["relative", "ranked"], alpha: float
    ) -> None:
        chance = random.Random(13)
        vectors = normalised(np.random.default_rng(13).normal(size=(41, 4)).astype(np.float32))
        store.create("ns", MANIFEST)
        store.upsert(
            "ns",
            [
                document(
                    f"d{i:02}",
                    " ".join(["pear"] * chance.randrange(4) + ["plum"] * (i + 1)),
                    vectors=(vector,),
                )
                for i, vector in enumerate(vectors[1:])
            ],
        )
        search = Search(depth=60, timeout_s=30)
        (lexical,) = store.search_text("ns", ["pear"], search)
        (dense,) = store.search_vectors("ns", vectors[:1], search)
        (own,) = store.search_hybrid("ns", ["pear"], vectors[:1], search, alpha=alpha, fusion=fusion)
        rankings = [
            BranchRanking(name, name, weight, tuple(one.passage_id for one in ranking.hits), ranking.hits)
            for name, weight, ranking in (("bm25", 1 - alpha, lexical), ("vector", alpha, dense))
        ]
        ours = fuse_rankings(rankings, BUILT_IN.method(f"weaviate-{fusion}"), 60)
        assert 20 < len(lexical.hits) < len(dense.hits) == len(own.hits)
        assert {one.hit.passage_id: one.score for one in ours} == pytest.approx(
            # The store rounds scores of BM25 to five decimals, and relative fusion then divides them by their range.
            {hit.passage_id: hit.score for hit in own.hits},
            abs=3e-4 if fusion == "relative" else 1e-5,
        )

    def test_a_question_without_a_term_uses_only_its_vector(self, store: WeaviateStore) -> None:
        store.create("ns", MANIFEST)
        store.upsert("ns", [document("a", "pear"), document("b", "pear", vectors=(NORTH,))])
        (ranking,) = store.search_hybrid(
            "ns", ["the of"], questions(NORTH), Search(depth=1, timeout_s=30), alpha=0.0, fusion="relative"
        )
        assert [hit.document_id for hit in ranking.hits] == ["b"]
