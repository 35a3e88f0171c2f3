"""What every store promises that rebuilds a namespace beside the one that is searched (`search.protocol.Rebuilds`)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from models.documents import Document
from models.errors import InvalidAnswer
from search.protocol import Rebuilds, Store
from tests.contracts.store_documents import document
from tests.contracts.store_searches import Searching
from tests.support.waiting import until


def build(first: int) -> list[Document]:
    """Forty documents; builds that begin elsewhere share all documents but the first and the last ones."""
    return [document(f"d{n:02}", "pear") for n in range(first, first + 40)]


class RebuildingContract(Searching):
    """A rebuild is invisible until it is complete.  Override `reader` to search through another connection."""

    @pytest.fixture
    def reader(self, store: Store) -> Store:
        return store

    def seen(self, store: Store) -> list[list[str]]:
        """The passages that each kind of search finds now."""
        return [[hit.passage_id for hit in one.hits] for one in self.rankings(store, "pear", depth=100)]

    def test_searches_go_on_during_a_rebuild_and_each_sees_one_build_whole(
        self, store: Store, reader: Store
    ) -> None:
        assert isinstance(store, Rebuilds)
        generation = store.upsert("ns", build(0))
        seen: list[list[str]] = []
        wrong: list[Exception] = []
        ended = threading.Event()

        def documents(n: int) -> Iterator[Document]:
            yield from build(n)
            # A rebuild ends after a search that began during the rebuild.
            before = len(seen)
            until(lambda: len(seen) > before + 4 or wrong)

        def search() -> None:
            while not ended.is_set():
                try:
                    seen.extend(self.seen(reader))
                    assert len(reader.texts("ns", ["d10#0", "d39#0"], timeout_s=30)) == 2
                except Exception as error:
                    wrong.append(error)

        searching = [threading.Thread(target=search) for _ in range(2)]
        for thread in searching:
            thread.start()
        try:
            for n in range(1, 4):
                manifest = replace(self.manifest, language="it" if n % 2 else "en")
                assert store.rebuild("ns", manifest, documents(n)) == generation + n
        finally:
            ended.set()
            for thread in searching:
                thread.join(60)
        assert wrong == []
        builds = [[f"{one.document_id}#0" for one in build(n)] for n in range(4)]
        assert [one for one in seen if one not in builds] == []
        assert {builds.index(one) for one in seen} >= {0, 1, 2}
        assert all(one == builds[3] for one in self.seen(reader))

    def test_a_rebuild_that_fails_leaves_the_namespace_as_it_was(self, store: Store) -> None:
        assert isinstance(store, Rebuilds)
        generation = store.upsert("ns", [document("a", "pear")])

        def documents() -> Iterator[Document]:
            yield document("b", "pear")
            raise InvalidAnswer("the model is gone")

        for _ in range(2):
            with pytest.raises(InvalidAnswer, match="the model is gone"):
                store.rebuild("ns", self.manifest, documents())
        assert self.finds(store, ["a#0"], "pear")
        assert store.generation("ns") == generation
        store.rebuild("ns", self.manifest, [document("c", "pear")])
        assert self.finds(store, ["c#0"], "pear")
