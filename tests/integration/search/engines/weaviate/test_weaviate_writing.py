"""Writing documents to Weaviate, also after interruptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from weaviate.collections.classes.batch import DeleteManyReturn

from models.errors import StoreUnavailable
from search.engines.weaviate.store import WeaviateStore
from tests.contracts.store_documents import document
from tests.support.stores.known_index import index_of
from tests.support.stores.weaviate_namespaces import found


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
        assert found(store, "plum") == []
        assert found(store, "cherry") == ["a#0", "a#1"]
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
        assert found(store, "pear") == ["c#0", "half#0"]


def then_cut_off(written: Callable[..., object]) -> Callable[..., None]:
    def cut_off(*given: Any) -> None:
        written(*given)
        raise StoreUnavailable("cut off")

    return cut_off
