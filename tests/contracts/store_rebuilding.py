"""What the store of a server promises with its documents' database: it is rebuilt while it is searched."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, cast

import pytest

from models.documents import Document
from models.errors import InvalidAnswer
from search.documents.reading import DocumentReader
from tests.contracts.store_documents import document
from tests.contracts.store_searches import Searching
from tests.support.stores.one_engine import OneEngine
from tests.support.waiting import until


def build(first: int) -> list[Document]:
    """Eight documents; builds that begin elsewhere share all documents but the first and the last ones."""
    return [document(f"d{n:02}", "pear") for n in range(first, first + 8)]


class RebuildingContract(Searching):
    """A rebuild is invisible until it is complete, also through another connection (`OneEngine.another`)."""

    @pytest.fixture
    def reader(self, store: OneEngine) -> Iterator[Any]:
        if store.another is None:
            yield store
            return
        with store.another() as reader:
            reader.reader = DocumentReader(store.documents, "local")
            yield reader

    def seen(self, store: OneEngine) -> list[list[str]]:
        """The passages that each kind of search finds now."""
        return [
            [hit.passage_id for hit in ranking.hits] for ranking in self.rankings(store, "pear", depth=100)
        ]

    def test_searches_go_on_during_a_rebuild_and_each_sees_one_build_whole(
        self, store: OneEngine, reader: OneEngine
    ) -> None:
        rebuild = cast("Any", store).rebuild
        generation = store.upsert("ns", build(0))
        builds = [[f"{document.document_id}#0" for document in build(n)] for n in range(4)]
        seen: list[list[str]] = []
        wrong: list[Exception] = []
        ended = threading.Event()

        def documents(n: int) -> Iterator[Document]:
            yield from build(n)
            # Until then the build before this one is searched, however slow the searches are.
            until(lambda: builds[n - 1] in seen or wrong)

        def search() -> None:
            try:
                while not ended.is_set():
                    seen.extend(self.seen(reader))
                    assert len(reader.texts("ns", ["d03#0", "d07#0"], timeout_s=30)) == 2
            except Exception as error:
                wrong.append(error)

        with ThreadPoolExecutor(2) as threads:
            for _ in range(2):
                threads.submit(search)
            try:
                for n in range(1, 4):
                    manifest = replace(self.manifest, language="it" if n % 2 else "en")
                    assert rebuild("ns", manifest, documents(n)) == generation + n
            finally:
                ended.set()
        assert wrong == []
        assert [ranking for ranking in seen if ranking not in builds] == []
        assert all(ranking == builds[3] for ranking in self.seen(reader))

    def test_a_rebuild_that_fails_leaves_the_namespace_as_it_was(self, store: OneEngine) -> None:
        rebuild = cast("Any", store).rebuild
        generation = store.upsert("ns", [document("a", "pear")])

        def documents() -> Iterator[Document]:
            yield document("b", "pear")
            raise InvalidAnswer("the model is gone")

        for _ in range(2):
            with pytest.raises(InvalidAnswer, match="the model is gone"):
                rebuild("ns", self.manifest, documents())
        assert self.finds(store, ["a#0"], "pear")
        assert store.generation("ns") == generation
        rebuild("ns", self.manifest, [document("c", "pear")])
        assert self.finds(store, ["c#0"], "pear")
