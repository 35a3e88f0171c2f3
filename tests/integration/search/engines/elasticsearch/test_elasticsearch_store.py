"""The Elasticsearch store keeps every promise of a store, on a real server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

import pytest

from tests.contracts.store import StoreContract
from tests.contracts.store_documents import EAST, document, questions
from tests.contracts.store_filters import DrawnFiltersContract, FiltersContract
from tests.contracts.store_ranking import EmbeddedScoresContract, TextContract
from tests.contracts.store_rebuilding import RebuildingContract
from tests.contracts.store_searches import asking
from tests.contracts.store_writing import WritingContract
from tests.support.servers.databases import empty_database
from tests.support.servers.elasticsearch_server import HUNSPELL, corner, opened
from tests.support.stores.known_index import index_of
from tests.support.stores.one_engine import Emptied, OneEngine, with_documents


@pytest.fixture(scope="class")
def prefix() -> Iterator[str]:
    with corner() as prefix:
        yield prefix


@pytest.fixture(scope="class")
def shared_store(
    request: pytest.FixtureRequest, prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OneEngine]:
    """One store for all tests of a class."""
    with (
        empty_database("postgresql", tmp_path_factory.mktemp("documents")) as url,
        opened(prefix, **request.cls.options) as engine,
        with_documents(engine, url, another=partial(opened, prefix, **request.cls.options)) as store,
    ):
        yield store


class TestElasticsearchStore(
    Emptied, StoreContract, EmbeddedScoresContract, RebuildingContract, DrawnFiltersContract
):
    """A store with our own analyser."""

    forgets_at_once = False

    options: ClassVar[Mapping[str, Any]] = {"vectors": True}


class TestWithAnAnalyserOfTheServer(Emptied, WritingContract, TextContract):
    options: ClassVar[Mapping[str, Any]] = {"analyser": HUNSPELL}
    has_vectors = False

    def test_stems_and_stop_words_are_the_servers(self, store: OneEngine) -> None:
        store.upsert("ns", [document("a", "the houses"), document("b", "of the and")])
        assert self.passage_ids(store, "house") == ["a#0"]
        assert self.passage_ids(store, "of the and") == []


class TestWithSeveralShards(Emptied, FiltersContract):
    options: ClassVar[Mapping[str, Any]] = {"vectors": True, "shards": 3, "replicas": 0}


def test_a_document_with_thousands_of_passages_leaves_room_for_others() -> None:
    others = [document(f"d{n:02}", "pear with some other words") for n in range(20)]
    with corner() as prefix, opened(prefix, vectors=True) as store:
        store.create(index_of())
        store.write(index_of(), [document("book", *["pear"] * 2_500)], ())
        store.write(index_of(), others, ())
        [text] = store.search_text("ns", ["pear"], asking(depth=20))
        [near] = store.search_vectors("ns", questions(EAST), asking(depth=20))
    for ranking in (text, near):
        assert len({hit.document_id for hit in ranking.hits}) == 20
    assert [hit.document_id for hit in text.hits][-19:] == [f"d{n:02}" for n in range(19)]
