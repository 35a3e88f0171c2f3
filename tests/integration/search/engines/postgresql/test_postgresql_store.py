"""The PostgreSQL store keeps every promise of a store, on a real server that has the documents too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
import pytest

from models.errors import PartlyWritten
from models.hits import Hit
from search.engines.postgresql import searching
from search.protocol import Search
from tests.contracts.store import StoreContract
from tests.contracts.store_documents import MANIFEST, document
from tests.contracts.store_filters import DrawnFiltersContract, FiltersContract
from tests.contracts.store_listing import ListingContract
from tests.contracts.store_ranking import EmbeddedScoresContract, VectorContract
from tests.contracts.store_rebuilding import RebuildingContract
from tests.support.servers.postgresql_server import PostgresqlServer, opened
from tests.support.stores.known_index import KnownIndexes, index_of
from tests.support.stores.one_engine import Emptied, OneEngine, indexed_revisions, with_documents


@pytest.fixture(scope="class")
def shared_store(request: pytest.FixtureRequest, server: PostgresqlServer) -> Iterator[OneEngine]:
    """One store for all tests of a class."""
    opens = partial(opened, server.url(), **request.cls.options)
    with opens() as engine, with_documents(engine, server.url(), another=opens) as store:
        yield store


@pytest.mark.slow
class TestPostgresqlStore(
    Emptied, StoreContract, EmbeddedScoresContract, ListingContract, RebuildingContract, DrawnFiltersContract
):
    """Listings are read from the documents' database."""


class TestWithAGraph(Emptied, VectorContract, FiltersContract):
    """Every namespace gets a graph with its first document."""

    options: ClassVar[Mapping[str, Any]] = {"exact_below": 1}


def test_a_graph_returns_as_many_hits_as_a_search_asks_for_also_under_a_filter(
    server: PostgresqlServer,
) -> None:
    drawn = np.random.default_rng(20_261_130).standard_normal((600, 16)).astype(np.float32)
    vectors = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    documents = [
        document(f"d{n:03}", "pear", vectors=(vectors[n],), metadata={"is_rare": n % 60 == 0})
        for n in range(600)
    ]
    index, has_graph = index_of(dimension=16), "SELECT count(*) FROM pg_class WHERE relname LIKE '%graph'"
    with server.database() as name, opened(server.url(name), exact_below=400, candidates=10) as store:
        cast("KnownIndexes", store.reader).indexes["ns"] = index
        store.create(index)
        for part, graphs in ((documents[:300], 0), (documents[300:], 1)):
            store.write(index, part, ())
            assert server.execute(has_graph, name) == [(graphs,)]

        def document_ids(depth: int, **filters: bool) -> list[str]:
            search = Search(depth=depth, timeout_s=60, filters=filters)
            return [hit.document_id for hit in store.search_vectors("ns", vectors[70:71], search)[0].hits]

        assert document_ids(1) == ["d070"]
        assert [len(document_ids(depth)) for depth in (100, 550, 1_000)] == [100, 550, 600]
        assert sorted(document_ids(100, is_rare=True)) == [f"d{n:03}" for n in range(0, 600, 60)]


@pytest.mark.slow
def test_a_ranking_is_the_same_whether_frequent_words_are_looked_up_or_read(
    server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words follow Zipf's law, so that most passages have the most frequent ones."""
    monkeypatch.setattr(searching, "LEAST_CANDIDATES", 5)
    drawn = np.random.default_rng(20_261_129)

    def text(words: int) -> str:
        return " ".join(f"w{rank}" for rank in (drawn.zipf(1.3, words) % 3_000).tolist())

    documents = [document(f"d{n}", text(30), metadata={"third": n % 3}) for n in range(300)]
    questions = [text(int(drawn.integers(2, 16))) for _ in range(40)]
    bisection_only = searching._TEXT.replace("WHERE NOT EXISTS (SELECT FROM bound)", "WHERE false")
    with server.database() as name, opened(server.url(name), vectors=False) as engine:
        engine.create(index_of())
        engine.write(index_of(), documents, ())

        def all_hits(search: Search, name: str, value: object) -> list[tuple[Hit, ...]]:
            with monkeypatch.context() as changed:
                changed.setattr(searching, name, value)
                return [ranking.hits for ranking in engine.search_text("ns", questions, search)]

        for search in (Search(5, timeout_s=60), Search(5, {"third": 1}, timeout_s=60)):
            read, bisected = all_hits(search, "RARE_SHARE", 0), all_hits(search, "_TEXT", bisection_only)
            assert all_hits(search, "RARE_SHARE", 0.3) == read
            complete = [(ours, whole) for ours, whole in zip(bisected, read, strict=True) if ours]
            assert [ours for ours, _ in complete] == [whole for _, whole in complete]
            assert 5 < len(complete) < 40


def test_two_processes_may_create_their_first_indexes_at_once(server: PostgresqlServer) -> None:
    with server.database() as name, opened(server.url(name)) as store, ThreadPoolExecutor(8) as threads:
        server.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
        indexes = [replace(index_of(), name=f"n{number}.v1") for number in range(8)]
        assert list(threads.map(store.create, indexes)) == [None] * 8
        assert all(store.has(index) for index in indexes)
        for index in indexes:
            store.drop(index)
        assert server.execute("SELECT FROM pg_tables WHERE tablename LIKE 'chorale_engine_%'", name) == []


@pytest.fixture
def store(server: PostgresqlServer) -> Iterator[OneEngine]:
    """Alone in the database `alone`."""
    server.execute("CREATE DATABASE alone")
    with opened(server.url("alone")) as engine, with_documents(engine) as store:
        store.create("ns", MANIFEST)
        yield store
    server.execute("DROP DATABASE alone WITH (FORCE)")


def test_a_document_that_no_column_takes_is_refused_by_itself_and_half_a_character_replaced(
    store: OneEngine,
) -> None:
    good = document("half", "pear", metadata={"source_type": "\ud800", "colour": "\ud800"})
    with pytest.raises(PartlyWritten) as raised:
        store.upsert("ns", [good, document("b", "pear", metadata={"source_type": "x\0"})])
    assert list(raised.value.failures) == ["b"]
    assert "NUL" in raised.value.failures["b"]
    assert indexed_revisions(store) == {"half": "1"}


def test_a_statement_is_not_compiled_first(store: OneEngine) -> None:
    connection = store.engine._connection
    for answers in (lambda work: connection.read(work, connection.deadline()), connection.write):
        assert answers(lambda session: session.execute("SHOW jit").fetchall()) == [("off",)]


def test_a_word_that_is_known_takes_no_further_number(server: PostgresqlServer, store: OneEngine) -> None:
    for text in ("pear", "pear plum", "plum pear"):
        store.upsert("ns", [document("a", text)])
    numbers = server.execute("SELECT term FROM chorale_engine_1_terms ORDER BY term", "alone")
    assert numbers == [(number + 1,) for number in range(len(numbers))]


def test_an_index_whose_tables_are_gone_is_made_again(server: PostgresqlServer, store: OneEngine) -> None:
    store.upsert("ns", [document("a", "pear")])
    server.execute("DROP TABLE chorale_engine_1_passages, chorale_engine_1_terms", "alone")
    store.verify("ns", mends=True)
    assert indexed_revisions(store) == {"a": "1"}
