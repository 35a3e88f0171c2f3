"""The OpenSearch store keeps every promise of a store, on real servers of both versions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from search.documents.reading import DocumentReader
from search.engines.opensearch.store import OpenSearchStore
from search.protocol import Search
from tests.contracts.store import StoreContract
from tests.contracts.store_documents import EAST, document, questions
from tests.contracts.store_filters import DrawnFiltersContract
from tests.contracts.store_ranking import TextContract
from tests.contracts.store_rebuilding import RebuildingContract
from tests.contracts.store_writing import WritingContract
from tests.support.servers.opensearch_server import OpenSearchServer
from tests.support.stores.known_index import index_of
from tests.support.stores.one_engine import OneEngine, with_documents

pytestmark = [pytest.mark.slow, pytest.mark.limit_s(300)]  # a server may start in any of them


class Emptied:
    @pytest.fixture
    def store(self, kept: OneEngine) -> Iterator[OneEngine]:
        yield kept
        for state in kept.namespaces():
            kept.drop(state.name)


class TestOpenSearchStore(Emptied, StoreContract, RebuildingContract, DrawnFiltersContract):
    """A store with our own analyser, on each version."""

    @pytest.fixture(scope="class")
    @classmethod
    def kept(cls, server: OpenSearchServer) -> Iterator[OneEngine]:
        """One store for all tests of the class."""
        with server.opened("own", vectors=True) as engine, with_documents(engine) as store:
            yield store

    @pytest.fixture
    def reader(self, kept: OneEngine, server: OpenSearchServer) -> Iterator[OpenSearchStore]:
        with server.opened("own", vectors=True) as reader:
            reader.reader = DocumentReader(kept.documents, "local")
            yield reader


class TestWithoutVectors(Emptied, WritingContract, TextContract):
    """A store of words, with an analyser of the server."""

    has_vectors = False

    @pytest.fixture(scope="class")
    @classmethod
    def kept(cls, without_vectors: OpenSearchServer) -> Iterator[OneEngine]:
        with without_vectors.opened(analyser="english") as engine, with_documents(engine) as store:
            yield store

    def test_stems_and_stop_words_are_the_servers(self, store: OneEngine) -> None:
        store.upsert("ns", [document("a", "the houses"), document("b", "of the and")])
        assert self.found(store, "house") == ["a#0"]
        assert self.found(store, "of the and") == []


def test_a_document_with_thousands_of_passages_leaves_room_for_others(server: OpenSearchServer) -> None:
    with server.opened(vectors=True) as store:
        store.create(index_of())
        store.write(index_of(), [document("book", *["pear"] * 2_500)], ())
        store.write(index_of(), [document(f"d{n:02}", "pear with some other words") for n in range(20)], ())
        search = Search(depth=20, timeout_s=30)
        for [ranking] in (
            store.search_text("ns", ["pear"], search),
            store.search_vectors("ns", questions(EAST), search),
        ):
            assert len({hit.document_id for hit in ranking.hits}) == 20
