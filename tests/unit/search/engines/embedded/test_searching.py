"""Ranking in the embedded store."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from models.documents import Document, Passage
from models.errors import StoreTimeout
from search.engines.embedded.lexical_index import LexicalSearcher
from search.protocol import Search
from tests.contracts.store_documents import EAST, document, questions
from tests.support.stores.embedded_searches import names, near
from tests.support.stores.one_engine import OneEngine, embedded_store


def test_bm25_scores_follow_robertsons_formula_with_k1_1_2_and_b_0_75(store: OneEngine) -> None:
    store.upsert("ns", [document("a", "pear pear plum fig"), document("b", "pear"), document("c", "fig")])
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    average = (4 + 1 + 1) / 3
    a = idf * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 4 / average))
    b = idf * 1 * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 1 / average))
    (ranking,) = store.search_text("ns", ["pear"], Search(depth=5))
    assert {hit.document_id: hit.score for hit in ranking.hits} == pytest.approx({"a": a, "b": b}, abs=1e-4)
    assert ranking.total_matches == 2


def test_a_passage_scores_two_thirds_of_its_own_bm25_and_a_third_of_its_whole_documents(
    store: OneEngine,
) -> None:
    store.upsert("ns", [document("a", "pear plum", "pear fig fig"), document("b", "fig")])

    def bm25(count: int, length: int, average: float, having: int, of: int) -> float:
        idf = math.log(1 + (of - having + 0.5) / (having + 0.5))
        return idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / average))

    whole = bm25(2, 5, average=(5 + 1) / 2, having=1, of=2)
    expected = {
        "a#0": (2 * bm25(1, 2, average=(2 + 3 + 1) / 3, having=2, of=3) + whole) / 3,
        "a#1": (2 * bm25(1, 3, average=(2 + 3 + 1) / 3, having=2, of=3) + whole) / 3,
    }
    (ranking,) = store.search_text("ns", ["pear"], Search(depth=5))
    assert {hit.passage_id: hit.score for hit in ranking.hits} == pytest.approx(expected, abs=1e-4)


def test_filtering_before_and_after_the_search_gives_the_same_hits(
    store: OneEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["pear " * (1 + i % 7) + "plum " * (i % 11) for i in range(300)]
    store.upsert("ns", [document(f"d{i:03}", texts[i], metadata={"n": i % 4}) for i in range(300)])
    search = Search(depth=20, filters={"n": 2})
    (named,) = store.search_text("ns", ["pear plum plum"], search)
    monkeypatch.setattr("search.engines.embedded.text_search._SET_BELOW", 0)
    (sifted,) = store.search_text("ns", ["pear plum plum"], search)
    assert named.hits == sifted.hits
    assert len(named.hits) == 20


def test_a_passage_without_a_vector_is_found_only_by_its_words(store: OneEngine) -> None:
    store.upsert("ns", [Document("a", "docs", "", (Passage("a#0", 0, "pear"),)), document("b", "plum")])
    assert names(store, "pear") == ["a"]
    assert near(store) == ["b"]
    assert store.vectors("ns", ["a#0", "b#0"]).keys() == {"b#0"}


def test_a_text_is_looked_up_once_for_two_branches_and_again_after_a_write_or_with_filters(
    store: OneEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[int] = []
    best = LexicalSearcher.best

    def counting(searcher: LexicalSearcher, query: Any, limit: int) -> Any:
        limits.append(limit)
        return best(searcher, query, limit)

    monkeypatch.setattr(LexicalSearcher, "best", counting)
    monkeypatch.setattr("search.engines.embedded.text_search._MOST_CACHED", 2)
    store.upsert("ns", [document(f"d{n}", "pear plum " * n + "fig", metadata={"n": n}) for n in (1, 2, 3)])
    deep = names(store, "pear", 100)
    assert (len(deep), len(limits)) == (3, 1)
    assert names(store, "pear", 2) == deep[:2]
    assert len(limits) == 1
    (filtered,) = store.search_text("ns", ["pear"], Search(depth=100, filters={"n": 2}))
    assert ([hit.document_id for hit in filtered.hits], len(limits)) == (["d2"], 2)
    for text in ("plum", "fig", "pear"):  # the third one has no place beside the others
        assert sorted(names(store, text, 100)) == sorted(deep)
    assert len(limits) == 5
    store.delete("ns", deep[:1])
    assert (names(store, "pear", 100), len(limits)) == (deep[1:], 6)


def test_a_search_after_its_deadline_is_a_timeout(store: OneEngine) -> None:
    store.upsert("ns", [document("a", "pear")])
    calls: list[Callable[[], object]] = [
        lambda: store.search_text("ns", ["pear"], Search(depth=1, timeout_s=-1)),
        lambda: store.search_vectors("ns", questions(EAST), Search(depth=1, timeout_s=-1)),
        lambda: store.texts("ns", ["a#0"], timeout_s=-1),
    ]
    for call in calls:
        with pytest.raises(StoreTimeout):
            call()


def test_warming_for_text_loads_no_matrix(folder: Path, store: OneEngine) -> None:
    store.upsert("ns", [document("a", "pear")])
    text_only = embedded_store(folder, warm_vectors=False)
    text_only.warm()
    view = text_only._view("ns")
    assert view.searcher is not None
    assert view.vectors is None
    assert near(text_only) == ["a"]  # a vector search still loads it
    text_only.close()
