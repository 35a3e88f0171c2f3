"""Writing documents to Weaviate and rebuilding a namespace, also after interruptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from weaviate.collections.classes.batch import DeleteManyReturn

from models.documents import Document
from models.errors import InvalidAnswer, PartlyWritten, StoreUnavailable
from search.protocol import Search
from search.weaviate.store import WeaviateStore
from tests.contracts.store_documents import MANIFEST, NORTH, document, questions
from tests.support.stores.one_engine import held
from tests.support.stores.weaviate_namespaces import found, normalised, tenants, vector_documents


class TestWriting:
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
        assert held(store) == {"a": "1"}
        store.upsert("ns", [document("a", "cherry", "cherry", revision="3")])
        assert found(store, "plum") == []
        assert found(store, "cherry") == ["a#0", "a#1"]
        assert len(store.entries("ns")) == 2

    def test_a_deletion_that_deletes_nothing_ends(
        self, store: WeaviateStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.create("ns", MANIFEST)
        answers = [DeleteManyReturn(failed=10_000, matches=10_000, objects=None, successful=0)] * 2

        async def delete_many(*_: Any, **__: Any) -> DeleteManyReturn[None]:
            return answers.pop()  # a third call would fail: the deletion must not go on for ever

        executor = "weaviate.collections.data.executor._DataCollectionExecutor"
        monkeypatch.setattr(f"{executor}.delete_many", delete_many)
        with pytest.raises(StoreUnavailable, match="deleted 0 of 10,000"):
            store.delete("ns", ["a"])


class TestRebuilding:
    def test_a_rebuild_may_change_the_dimension_or_create_the_namespace(self, store: WeaviateStore) -> None:
        turned = normalised(np.ones((3, 7), np.float32))
        store.rebuild("ns", replace(MANIFEST, dimension=7), vector_documents(turned))
        store.rebuild("ns", MANIFEST, [document("a", "pear", vectors=(NORTH,))])
        (ranking,) = store.search_vectors("ns", questions(NORTH), Search(depth=5, timeout_s=30))
        assert [hit.passage_id for hit in ranking.hits] == ["a#0"]
        assert len(store.entries("ns")) == 1

    def test_the_next_rebuild_removes_the_tenant_of_a_failed_one(self, store: WeaviateStore) -> None:
        store.create("ns", MANIFEST)
        store.upsert("ns", [document("a", "pear")])
        with pytest.raises(InvalidAnswer):
            store.rebuild("ns", MANIFEST, ended_by_failure())
        assert len(tenants(store)) == 2
        with pytest.raises(PartlyWritten, match="bad"):
            store.rebuild(
                "ns",
                MANIFEST,
                [document("bad", "pear", metadata={"source_type": "\ud800"}), document("c", "pear")],
            )
        assert found(store, "pear") == ["c#0"]
        assert len(tenants(store)) == 1
        store.upsert("ns", [document("d", "pear")])
        assert store.drop("ns")
        assert tenants(store) == []


def ended_by_failure() -> Iterator[Document]:
    yield document("b", "pear")
    raise InvalidAnswer("the model is gone")


def then_cut_off(written: Callable[..., object]) -> Callable[..., None]:
    def cut_off(*given: Any) -> None:
        written(*given)
        raise StoreUnavailable("cut off")

    return cut_off
