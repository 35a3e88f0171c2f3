"""What every store promises about writing."""

from __future__ import annotations

import numpy as np
import pytest

from models.documents import PassageText
from models.errors import InvalidAnswer
from tests.contracts.store_documents import UP, document
from tests.contracts.store_searches import Searching
from tests.support.stores.one_engine import OneEngine


class WritingContract(Searching):
    """Written documents become visible, whole, and once."""

    def test_the_generation_rises_once_for_each_batch_when_readers_see_it(self, store: OneEngine) -> None:
        first = store.generation("ns")
        for n in range(1, 4):
            assert store.upsert("ns", [document(f"d{n}", "word"), document(f"e{n}", "word")]) == first + n
            assert store.generation("ns") == first + n
            for ranking in self.rankings(store, "word"):
                assert len(ranking.hits) == 2 * n
        store.delete("ns", ["d1", "d2"])
        assert store.generation("ns") == first + 4
        assert store.upsert("ns", []) == first + 4
        assert store.delete("ns", ["d1", "never there"]) == 0
        assert store.generation("ns") == first + 4

    def test_a_document_is_replaced_whole(self, store: OneEngine) -> None:
        store.upsert("ns", [document("a", "apple", "pear", "plum"), document("b", "pear")])
        counts = [2, 4] if self.has_vectors else [2]
        for ranking, count in zip(self.rankings(store, "pear"), counts, strict=True):
            assert len(ranking.hits) == count
        store.upsert("ns", [document("a", "cherry", vectors=(UP,), title="Fruit")])
        assert self.passage_ids(store, "apple plum") == []
        assert self.passage_ids(store, "pear") == ["b#0"]
        assert self.passage_ids(store, "cherry") == ["a#0"]
        if self.has_vectors:
            assert self.near(store, UP) == ["a#0", "b#0"]
        assert store.texts("ns", ["a#0", "a#1"]) == {
            "a#0": PassageText("a#0", "a", "Fruit", "", "cherry", {})
        }

    def test_the_same_batch_twice_changes_no_hit(self, store: OneEngine) -> None:
        batch = [document("a", "apple", "pear"), document("b", "pear")]
        store.upsert("ns", batch)
        once = self.rankings(store, "pear")
        store.upsert("ns", batch)
        assert self.rankings(store, "pear") == once
        assert [(state.documents, state.passages) for state in store.namespaces()] == [(2, 3)]

    def test_deleted_documents_are_not_found(self, store: OneEngine) -> None:
        store.upsert("ns", [document(name, "pear") for name in "abc"])
        assert self.finds(store, ["a#0", "b#0", "c#0"], "pear")
        assert store.delete("ns", ["a", "c", "unknown"]) == 2
        assert self.finds(store, ["b#0"], "pear")
        assert store.vectors("ns", ["a#0"]) == {}
        assert store.texts("ns", ["a#0"]) == {}

    def test_a_batch_with_one_bad_vector_changes_nothing(self, store: OneEngine) -> None:
        generation = store.upsert("ns", [document("a", "old")])
        short = document("b", "new", vectors=(np.ones(1, np.float32),))
        with pytest.raises(InvalidAnswer, match=r"\(1,\).*4"):
            store.upsert("ns", [document("a", "new"), short])
        with pytest.raises(InvalidAnswer, match="nan"):
            store.upsert("ns", [document("a", "new", vectors=(np.full(4, np.nan, np.float32),))])
        assert store.generation("ns") == generation
        assert self.finds(store, ["a#0"], "old new")
        assert store.texts("ns", ["a#0"])["a#0"].text == "old"
