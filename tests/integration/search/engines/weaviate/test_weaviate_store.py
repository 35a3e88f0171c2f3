"""Weaviate keeps every promise of a store; filters, vectors and hybrid search."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Literal

import numpy as np
import pytest

from fusion.candidates import fuse_rankings
from models.declarations.fusion_method import BranchRanking
from search.engines.weaviate.store import WeaviateStore
from search.protocol import Search
from tasks.wiring.pipeline import BUILT_IN
from tests.contracts.store import StoreContract
from tests.contracts.store_documents import NORTH, document, questions
from tests.contracts.store_filters import DrawnFiltersContract
from tests.contracts.store_rebuilding import RebuildingContract
from tests.contracts.store_searches import asking
from tests.support.servers.weaviate_server import shared_weaviate
from tests.support.stores.known_index import KnownIndexes, index_of
from tests.support.stores.one_engine import Emptied, OneEngine, with_documents
from tests.support.stores.weaviate_namespaces import normalised, vector_documents


@pytest.fixture(scope="module")
def shared_store() -> Iterator[OneEngine]:
    with shared_weaviate() as engine, with_documents(engine) as store:
        yield store


class TestWeaviateStore(Emptied, StoreContract, RebuildingContract, DrawnFiltersContract):
    """The contracts, on one pair of collections."""

    def seen(self, store: OneEngine) -> list[list[str]]:
        listed = store.list_documents("ns", asking(depth=100), order_by="n", descending=True)
        return [*super().seen(store), [hit.passage_id for hit in listed.hits]]


class TestVectors:
    def test_a_small_namespace_is_searched_exactly_and_hnsw_finds_nearly_all(self) -> None:
        chance = np.random.default_rng(5)
        vectors = normalised(chance.normal(size=(2_000, 32)).astype(np.float32))
        questions = normalised(chance.normal(size=(50, 32)).astype(np.float32))
        cosines = questions @ vectors.T
        all_best = np.argsort(-cosines, axis=1)[:, :10]
        odd_best = np.argsort(-cosines[:, 1::2], axis=1)[:, :10] * 2 + 1
        for options, searches in (
            ({}, [(None, all_best, 500), ({"half": 1}, odd_best, 500)]),
            ({"flat_search_cutoff": 0}, [(None, all_best, 475)]),
        ):
            with shared_weaviate(**options) as store:
                assert isinstance(store.reader, KnownIndexes)
                store.reader.indexes["ns"] = index = index_of(dimension=32)
                store.create(index)
                store.write(index, vector_documents(vectors), ())
                for filters, best, least in searches:
                    search = Search(depth=10, filters=filters, timeout_s=30)
                    rankings = store.search_vectors("ns", questions, search)
                    hits = [{hit.document_id for hit in ranking.hits} for ranking in rankings]
                    exact = [{f"d{place:05}" for place in row} for row in best]
                    assert sum(len(ours & right) for ours, right in zip(hits, exact, strict=True)) >= least


class TestHybrid:
    @pytest.mark.parametrize("fusion", ["relative", "ranked"])
    @pytest.mark.parametrize("alpha", [0.25, 0.75])
    def test_our_presets_give_the_scores_of_its_own_fusion(
        self, store: WeaviateStore, fusion: Literal["relative", "ranked"], alpha: float
    ) -> None:
        chance = random.Random(13)
        vectors = normalised(np.random.default_rng(13).normal(size=(41, 4)).astype(np.float32))
        store.create(index_of())
        texts = [" ".join(["pear"] * chance.randrange(4) + ["plum"] * (i + 1)) for i in range(40)]
        pairs = zip(texts, vectors[1:], strict=True)
        documents = [document(f"d{i:02}", text, vectors=(of,)) for i, (text, of) in enumerate(pairs)]
        store.write(index_of(), documents, ())
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
        store.create(index_of())
        store.write(index_of(), [document("a", "pear"), document("b", "pear", vectors=(NORTH,))], ())
        (ranking,) = store.search_hybrid(
            "ns", ["the of"], questions(NORTH), Search(depth=1, timeout_s=30), alpha=0.0, fusion="relative"
        )
        assert [hit.document_id for hit in ranking.hits] == ["b"]
