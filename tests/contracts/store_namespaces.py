"""What every store promises about namespaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from chorale_client.wire_names import Reason

from models.errors import BadIndex, ManifestMismatch, UnknownNamespace
from tests.contracts.store_documents import EAST, document, questions
from tests.contracts.store_searches import Searching, asking
from tests.support.stores.one_engine import OneEngine


class NamespacesContract(Searching):
    """Namespaces and manifests."""

    def test_an_unknown_namespace_raises_bad_index_with_its_name(self, store: OneEngine) -> None:
        calls: list[Callable[[], object]] = [
            lambda: self.rankings(store, "a", namespace="nowhere", depth=1),
            lambda: store.texts("nowhere", ["a"]),
            lambda: store.vectors("nowhere", ["a"]),
            lambda: store.generation("nowhere"),
            lambda: store.upsert("nowhere", [document("a", "text")]),
            lambda: store.delete("nowhere", ["a"]),
        ]
        if self.has_vectors:
            calls.append(lambda: store.search_vectors("nowhere", questions(EAST), asking(depth=1)))
        for call in calls:
            with pytest.raises(UnknownNamespace, match="nowhere") as raised:
                call()
            assert raised.value.reason == Reason.BAD_INDEX
            wrong, _, there = raised.value.detail.partition("; there are: ")
            assert wrong == "there is no namespace 'nowhere'"
            assert "nowhere" not in there

    def test_creating_a_namespace_twice_changes_nothing(self, store: OneEngine) -> None:
        assert self.finds(store, [], "anything")
        store.upsert("ns", [document("a", "kept")])
        assert store.create("ns", self.manifest) == self.manifest
        assert self.finds(store, ["a#0"], "kept")

    def test_a_different_manifest_is_refused_naming_the_differences_and_the_command(
        self, store: OneEngine
    ) -> None:
        with pytest.raises(ManifestMismatch) as raised:
            store.create("ns", replace(self.manifest, embedder="another", language="it"))
        message = str(raised.value)
        assert "embedder is 'by hand', asked for 'another'" in message
        assert "language is 'en', asked for 'it'" in message
        assert "splitter" not in message
        assert "chorale index --rebuild" in message

    def test_no_search_sees_another_namespace(self, store: OneEngine) -> None:
        store.create("other", self.manifest)
        store.upsert("other", [document("b", "secret")])
        store.upsert("ns", [document("a", "public")])
        assert self.finds(store, ["a#0"], "secret public")
        assert store.texts("ns", ["b#0"]) == {}
        assert store.vectors("ns", ["b#0"]) == {}
        assert store.delete("ns", ["b"]) == 0

    def test_a_dropped_namespace_is_gone_and_a_new_one_never_repeats_a_generation(
        self, store: OneEngine
    ) -> None:
        before = store.upsert("ns", [document("a", "old")])
        assert self.finds(store, ["a#0"], "old")
        assert store.drop("ns")
        assert not store.drop("ns")
        with pytest.raises(BadIndex):
            self.rankings(store, "old")
        store.create("ns", self.manifest)
        assert self.finds(store, [], "old")
        assert store.upsert("ns", [document("a", "new")]) > before
