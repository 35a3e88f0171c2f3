"""The graph of a namespace's documents: what its nodes and relations are, and how it follows the documents."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import kglite
import pytest

from models.documents import Document, PassageText
from models.errors import NotConfigured, StageFailure, StoreTimeout, UnknownNamespace
from models.hits import Ranking
from search.engines.graph import derived_graph
from search.engines.graph.derived_graph import DerivedGraph, Documents
from search.kinds import open_graph
from search.protocol import Search
from tests.contracts.cypher import CypherContract
from tests.contracts.store_documents import MANIFEST, document
from tests.support.stores.one_engine import OneEngine, embedded_store
from tests.support.waiting import until

CITED = "MATCH (:Document {id: $question})-[:CITES]->(cited:Document) RETURN cited.id AS id ORDER BY id"
DOUBLED = "reduce(text = 'a', x IN range(1, 40) | text + text)"  # 2**40 characters
ENTITIES = "MATCH (:Document {id: $question})-[:CITES]->(named:Entity) RETURN named.name AS id ORDER BY id"


class Slow:
    """A store whose texts wait until the test lets them go."""

    def __init__(self, store: OneEngine) -> None:
        self._store = store
        self.open = threading.Event()
        self.open.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def texts(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 0.5
    ) -> dict[str, PassageText]:
        assert self.open.wait(30)
        read: dict[str, PassageText] = self._store.texts(namespace, passage_ids, timeout_s=timeout_s)
        return read


@pytest.fixture
def documents(tmp_path: Path) -> Iterator[Slow]:
    store = Slow(embedded_store(tmp_path / "corpus"))
    store.create("ns", MANIFEST)
    yield store
    store.open.set()
    store.close()


@pytest.fixture
def graph(documents: Slow) -> Iterator[DerivedGraph]:
    links = {"CITES": "cites", "ABOUT": "meta.topics"}
    with closing(DerivedGraph("cites", cast("Documents", documents), links)) as graph:
        yield graph


class TestDerivedGraph(CypherContract):
    page = "(page:Document)"

    @pytest.fixture(scope="class")
    @classmethod
    def store(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DerivedGraph]:
        with closing(embedded_store(tmp_path_factory.mktemp("corpus"))) as documents:
            owners = {"ns": {"a": ("x", 1), "b": ("y", 3), "c": ("y", 2)}, "other": {"d": ("x", 4)}}
            for namespace, of in owners.items():
                documents.create(namespace, MANIFEST)
                pages = [page(name, owner=owner, weight=weight) for name, (owner, weight) in of.items()]
                documents.upsert(namespace, pages)
            with closing(DerivedGraph("cites", cast("Documents", documents), {"CITES": "cites"})) as graph:
                yield graph


def page(name: str, cites: Any = None, *, title: str = "", **metadata: Any) -> Document:
    return document(name, f"The text of {name}.", title=title, metadata={"cites": cites, **metadata})


def rows(graph: DerivedGraph, question: str, statement: str = CITED, **options: Any) -> list[str]:
    return [hit.document_id for hit in ranking(graph, question, statement, **options).hits]


def ranking(graph: DerivedGraph, question: str, statement: str = CITED, **options: Any) -> Ranking:
    search = Search(**{"depth": 10, "timeout_s": 30.0, **options})
    (answer,) = graph.search_cypher("ns", statement, [{"question": question}], search)
    return answer


def names(graph: DerivedGraph, statement: str) -> list[Any]:
    """The values of the column `x`, straight from the graph."""
    graph.warm("ns")
    view: Any = kglite.from_bytes(graph._graphs["ns"].graph).cypher(statement)
    return [row["x"] for row in view.to_dicts()]


def test_a_link_names_a_document_by_its_id_or_the_id_without_its_source_or_its_title_and_else_an_entity(
    documents: Slow, graph: DerivedGraph
) -> None:
    links = ["docs/B.md", "c.md", "the LAST page", "Nowhere", " Nowhere ", "", 7, "a"]
    documents.upsert(
        "ns",
        [
            page("docs/a.md", links, title="A"),
            page("docs/b.md"),
            page("docs/c.md", "nowhere"),
            page("docs/d.md", title="The last page"),
            page("docs/e.md", title="The last page"),
        ],
    )
    # The first of two documents with one title is meant; a document may cite itself.
    assert rows(graph, "docs/a.md") == ["docs/a.md", "docs/b.md", "docs/c.md", "docs/d.md"]
    assert names(graph, "MATCH (d)-[:CITES]->(e:Entity) RETURN d.id + ' ' + e.name AS x ORDER BY x") == [
        "docs/a.md Nowhere",
        "docs/c.md Nowhere",
    ]


def test_nodes_have_the_scalars_of_the_metadata_and_statements_see_them_as_they_are(
    documents: Slow, graph: DerivedGraph, capfd: pytest.CaptureFixture[str]
) -> None:
    odd: dict[str, Any] = {
        "year": 2024,
        "a `quoted` name": "x",
        "tags": ["p", "q"],
        "mixed": [1, ["y"]],
        "meta": {"topics": ["T"]},
    }
    documents.upsert(
        "ns", [page("a", **odd), page("b", year="2024", id="not this", title="B", ok=True, big=2**70)]
    )
    assert names(graph, "MATCH (d:Document) RETURN d.id AS x ORDER BY x") == ["a", "b"]
    assert names(graph, "MATCH (d:Document) WHERE d.year = 2024 RETURN d.id AS x") == ["a"]
    assert names(graph, "MATCH (d:Document) WHERE 'q' IN d.tags RETURN d.`a ``quoted`` name` AS x") == ["x"]
    assert names(graph, "MATCH (d {id: 'b'}) RETURN [d.title, d.ok, d.big, d.mixed] AS x") == [
        ["B", True, None, None]
    ]
    assert names(graph, "MATCH (:Document {id: 'a'})-[:ABOUT]->(e) RETURN e.name AS x") == ["T"]
    assert rows(graph, "a", "MATCH (d:Document) WHERE d.nosuch = 1 RETURN d.id AS id") == []
    assert capfd.readouterr().err == ""  # fmt: skip


@pytest.mark.parametrize(
    ("statement", "memory_mb", "words"),
    [
        (f"RETURN size({DOUBLED}) AS id", 40, "needs more than 40 MB of memory"),
        (f"RETURN {DOUBLED.replace('40', '24')} AS id", 256, "the rows were too long"),
    ],
    ids=["memory", "rows"],
)
def test_a_statement_that_takes_too_much_is_ended_and_the_next_one_answered(
    documents: Slow,
    graph: DerivedGraph,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    memory_mb: int,
    words: str,
) -> None:
    monkeypatch.setattr("search.engines.graph.statement_process.MEMORY_MB", memory_mb)
    documents.upsert("ns", [page("a", "b"), page("b")])
    with pytest.raises(StageFailure, match=words):
        rows(graph, "", statement, timeout_s=60)
    assert rows(graph, "a") == ["b"]


def test_a_process_that_does_not_answer_is_ended_at_the_limit_of_the_search(
    documents: Slow, graph: DerivedGraph
) -> None:
    documents.upsert("ns", [page("a", "b"), page("b")])
    graph.warm("ns")
    graph._statements._process.send_signal(signal.SIGSTOP)
    with pytest.raises(StoreTimeout, match="did not answer within"):
        rows(graph, "a", timeout_s=0.5)
    assert rows(graph, "a") == ["b"]


def test_a_row_that_names_no_document_is_no_hit_and_rows_are_bounded(
    documents: Slow, graph: DerivedGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("cypher_rows", "engines.graph.statement_process"):
        monkeypatch.setattr(f"search.{module}.MAX_ROWS", 10)
    documents.upsert("ns", [page(f"p{number:02}", "Nowhere") for number in range(12)])
    assert rows(graph, "p01", ENTITIES) == []
    assert rows(graph, "", "OPTIONAL MATCH (d:Document {id: 'nosuch'}) RETURN d.id AS id") == []
    every = "MATCH (d:Document) RETURN d.id AS id ORDER BY id DESC"
    assert rows(graph, "", every, depth=2) == ["p11", "p10"]
    assert len(rows(graph, "", every, depth=2_000)) == 10


def test_a_change_is_in_the_next_search_and_one_of_a_namespace_that_is_dropped_is_forgotten(
    documents: Slow, graph: DerivedGraph
) -> None:
    documents.upsert("ns", [page("a", "b"), page("b")])
    assert rows(graph, "a") == ["b"]
    documents.upsert("ns", [page("a", ["b", "c"]), page("c")])
    assert rows(graph, "a") == ["b", "c"]
    documents.delete("ns", ["b"])
    assert rows(graph, "a") == ["c"]
    documents.drop("ns")
    with pytest.raises(UnknownNamespace):
        rows(graph, "a")
    assert graph._graphs == {}


def test_the_graph_of_a_dropped_namespace_that_nobody_asks_for_is_forgotten_too(
    documents: Slow, graph: DerivedGraph
) -> None:
    graph.warm()
    documents.create("other", MANIFEST)
    documents.drop("ns")
    graph.warm()
    assert [*graph._graphs] == ["other"]


def test_while_a_graph_is_built_the_older_one_answers_with_its_own_generation(
    documents: Slow, graph: DerivedGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derived_graph, "_SHARE", 0.01)
    documents.upsert("ns", [page("a", "b"), page("b")])
    old = graph.generation("ns")
    documents.open.clear()
    new = documents.upsert("ns", [page("a", ["b", "c"]), page("c")])
    assert graph.generation("ns", timeout_s=30) == old
    assert rows(graph, "a") == ["b"]
    documents.open.set()
    until(lambda: graph.generation("ns") == new)
    assert rows(graph, "a") == ["b", "c"]


def test_a_first_graph_that_is_not_ready_in_time_is_a_timeout_and_goes_on_being_built(
    documents: Slow, graph: DerivedGraph
) -> None:
    documents.upsert("ns", [page("a", "b"), page("b")])
    documents.open.clear()
    with pytest.raises(StoreTimeout, match="still being built"):
        rows(graph, "a", timeout_s=0.2)
    documents.open.set()
    assert rows(graph, "a") == ["b"]


def test_a_failure_to_read_the_documents_is_that_of_the_search_and_the_next_one_tries_again(
    documents: Slow, graph: DerivedGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents.upsert("ns", [page("a", "b"), page("b")])

    def fails(*_: Any, **__: Any) -> Any:
        raise StoreTimeout("the disk is slow")

    with monkeypatch.context() as patch:
        patch.setattr(documents, "texts", fails)
        with pytest.raises(StoreTimeout, match="the disk is slow"):
            rows(graph, "a")
    assert rows(graph, "a") == ["b"]


def test_threads_search_one_graph_while_it_changes(documents: Slow, graph: DerivedGraph) -> None:
    documents.upsert("ns", [page(f"p{number}", f"p{number + 1}") for number in range(50)])

    def ask(number: int) -> bool:
        return rows(graph, f"p{number % 49}") == [f"p{number % 49 + 1}"]

    with ThreadPoolExecutor(8) as threads:
        answers = [threads.submit(ask, number) for number in range(100)]
        for number in range(5):
            documents.upsert("ns", [page(f"more{number}")])
        assert all(answer.result(60) for answer in answers)


def test_without_kglite_the_error_names_the_command_that_installs_it(
    documents: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "search.engines.graph.derived_graph", None)
    with pytest.raises(NotConfigured, match="make graph"):
        open_graph(
            "cites",
            {"documents": "local", "links": {"CITES": "cites"}},
            documents=cast("Documents", documents),
            needs=(),
        )
