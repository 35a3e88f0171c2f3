"""The PostgreSQL store keeps every promise of a store, on a real server that has the documents too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest

from models.endpoints import PostgresqlEndpoint
from models.errors import PartlyWritten
from search.documents.reading import DocumentReader
from search.engines.postgresql.connection import Connection
from search.engines.postgresql.store import PostgresqlStore
from search.protocol import Search
from tests.bench import given_vectors
from tests.contracts.store import StoreContract
from tests.contracts.store_documents import MANIFEST, document
from tests.contracts.store_filters import DrawnFiltersContract, FiltersContract
from tests.contracts.store_ranking import VectorContract
from tests.contracts.store_rebuilding import RebuildingContract
from tests.support.servers.postgresql_server import PostgresqlServer, opened
from tests.support.stores.known_index import KnownIndexes, index_of
from tests.support.stores.one_engine import OneEngine, embedded_store, held, with_documents
from tests.support.stores.passages import standard_library_passages


@pytest.fixture(scope="class")
def kept(request: pytest.FixtureRequest, server: PostgresqlServer) -> Iterator[OneEngine]:
    """One store for all tests of a class."""
    with opened(server.url(), **request.cls.options) as engine, with_documents(engine, server.url()) as store:
        yield store


class Emptied:
    options: ClassVar[Mapping[str, Any]] = {}

    @pytest.fixture
    def store(self, kept: OneEngine) -> Iterator[OneEngine]:
        yield kept
        for state in kept.namespaces():
            kept.drop(state.name)


class TestPostgresqlStore(Emptied, StoreContract, RebuildingContract, DrawnFiltersContract):
    @pytest.fixture
    def reader(self, kept: OneEngine, server: PostgresqlServer) -> Iterator[PostgresqlStore]:
        with opened(server.url()) as reader:
            reader.reader = DocumentReader(kept.documents, "local")
            yield reader


class TestWithAGraph(Emptied, VectorContract, FiltersContract):
    """Every namespace gets a graph with its first document."""

    options: ClassVar[Mapping[str, Any]] = {"exact_below": 1}


def test_scores_by_text_are_those_of_the_embedded_store(server: PostgresqlServer, tmp_path: Path) -> None:
    texts = standard_library_passages(300)
    documents = [document(f"d{n}", *texts[n : n + 1 + n % 7], title=texts[-n][:40]) for n in range(0, 293, 3)]
    questions = ["the", "return a list of files", "a file object, or None", "getUserName", texts[7], ""]
    embedded = embedded_store(tmp_path)
    with server.database() as name, opened(server.url(name)) as engine, with_documents(engine) as store:
        for one in (embedded, store):
            one.create("ns", MANIFEST)
        embedded.upsert("ns", documents)
        # What was replaced or deleted counts no more.
        store.upsert("ns", [document(one.document_id, "a file", "a list") for one in documents])
        store.upsert("ns", [*documents, document("late", "a file of its own")])
        store.delete("ns", ["late"])
        for depth in (1, 10, 1_000):
            search = Search(depth=depth, timeout_s=30)
            expected = embedded.search_text("ns", questions, search)
            for ours, theirs in zip(store.search_text("ns", questions, search), expected, strict=True):
                known = {hit.passage_id: hit.score for hit in theirs.hits}
                # The embedded store sums in 32 bits, and both round to five decimals.
                assert {hit.passage_id: hit.score for hit in ours.hits} == pytest.approx(
                    known, rel=1e-5, abs=2e-5
                )
                assert ours.total_matches == theirs.total_matches
    embedded.close()


def test_a_graph_returns_as_many_hits_as_a_search_asks_for_also_under_a_filter(
    server: PostgresqlServer,
) -> None:
    documents = list(given_vectors.passages(0, 1_500))
    rare = [replace(one, metadata={"kind": "rare"}) for one in documents[::100]]
    question = given_vectors.GivenVectors().embed_questions([documents[700].passages[0].text])
    index = index_of(dimension=given_vectors.DIMENSION)
    with server.database() as name, opened(server.url(name), exact_below=1_000, candidates=10) as store:
        cast("KnownIndexes", store.reader).indexes["ns"] = index
        store.create(index)
        has_graph = "SELECT count(*) FROM pg_class WHERE relname LIKE '%graph'"
        for part in (documents[:900], documents[900:]):
            assert server.execute(has_graph, name) == [(0,)]
            store.write(index, part, ())
        assert server.execute(has_graph, name) == [(1,)]
        store.write(index, rare, ())

        def found(**options: Any) -> list[str]:
            [ranking] = store.search_vectors("ns", question, Search(timeout_s=60, **options))
            return [hit.document_id for hit in ranking.hits]

        assert found(depth=1) == ["d700"]
        for depth in (100, 1_400, 2_000):
            assert len(found(depth=depth)) == min(depth, 1_500)
        assert sorted(found(depth=100, filters={"kind": "rare"})) == sorted(one.document_id for one in rare)


def test_a_vector_too_long_for_a_graph_is_compared_one_by_one(server: PostgresqlServer) -> None:
    index = index_of(dimension=2_001)
    vectors = np.eye(3, 2_001, dtype=np.float32)
    with server.database() as name, opened(server.url(name), exact_below=0) as store:
        cast("KnownIndexes", store.reader).indexes["ns"] = index
        store.create(index)
        store.write(index, [document(f"d{n}", "pear", vectors=(vectors[n],)) for n in range(3)], ())
        [ranking] = store.search_vectors("ns", vectors[1:2], Search(depth=1, timeout_s=30))
        assert ranking.hits[0].document_id == "d1"


@pytest.mark.parametrize("default_isolation", ["read committed", "serializable"])
def test_two_processes_may_create_their_first_indexes_at_once(
    server: PostgresqlServer, default_isolation: str
) -> None:
    with server.database() as name, opened(server.url(name)) as store, ThreadPoolExecutor(8) as threads:
        server.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = '{default_isolation}'")
        indexes = [replace(index_of(), name=f"n{number}.v1") for number in range(8)]
        assert list(threads.map(store.create, indexes)) == [None] * 8
        assert all(store.has(index) for index in indexes)
        for index in indexes:
            store.drop(index)
        left = "SELECT relname FROM pg_class WHERE relname LIKE 'chorale\\_engine\\_%\\_%' AND relkind = 'r'"
        assert server.execute(left, name) == []


def test_a_statement_is_run_at_once_and_not_compiled_first(server: PostgresqlServer) -> None:
    connection = Connection(server.url(), PostgresqlEndpoint())
    for answers in (connection.read, connection.write):
        [(is_compiled,)] = answers(
            lambda session: session.execute("SHOW jit").fetchall(), connection.deadline()
        )
        assert is_compiled == "off"
    connection.close()


def test_a_document_that_no_column_takes_is_refused_by_itself(server: PostgresqlServer) -> None:
    with server.database() as name, opened(server.url(name)) as engine, with_documents(engine) as store:
        store.create("ns", MANIFEST)
        good, bad = document("a", "pear"), document("b", "pear", metadata={"source_type": "x\0"})
        with pytest.raises(PartlyWritten) as raised:
            store.upsert("ns", [good, bad])
        assert list(raised.value.failures) == ["b"]
        assert "NUL" in raised.value.failures["b"]
        assert held(store) == {"a": "1"}


def test_a_word_that_is_known_takes_no_further_number(server: PostgresqlServer) -> None:
    with server.database() as name, opened(server.url(name)) as engine, with_documents(engine) as store:
        store.create("ns", MANIFEST)
        for text in ("pear", "pear plum", "plum pear"):
            store.upsert("ns", [document("a", text)])
        numbers = "SELECT word, term FROM chorale_engine_1_terms ORDER BY term"
        words = dict(server.execute(numbers, name))
        assert [*words.values()] == [*range(1, len(words) + 1)]


def test_an_index_whose_tables_are_gone_is_made_again(server: PostgresqlServer) -> None:
    with server.database() as name, opened(server.url(name)) as engine, with_documents(engine) as store:
        store.create("ns", MANIFEST)
        store.upsert("ns", [document("a", "pear")])
        server.execute("DROP TABLE chorale_engine_1_passages, chorale_engine_1_terms", name)
        store.verify("ns", mends=True)
        assert held(store) == {"a": "1"}


def test_half_a_character_in_metadata_is_replaced(server: PostgresqlServer) -> None:
    with server.database() as name, opened(server.url(name)) as engine, with_documents(engine) as store:
        store.create("ns", MANIFEST)
        store.upsert("ns", [document("half", "pear", metadata={"source_type": "\ud800", "colour": "\ud800"})])
        assert held(store) == {"half": "1"}
