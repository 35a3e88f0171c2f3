"""The agent framework's retrieval node: declared stores with a branch for each, a fan-out, fused top-k, and side effects by capability."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any, TypedDict

import pytest
from chorale_client import Answer, Chorale
from chorale_client.adapters.langgraph import RetrievalResult, retrieval_node
from langgraph.graph import StateGraph

from evaluation.recorded.replay import replay
from models.documents import PassageText
from models.errors import StoreUnavailable, WrongDeclaration
from models.extensions import BranchKind, Kinds, StoreKind
from models.hits import Hit, Ranking
from search.texts_with_hits import TextsWithHits
from tasks.branches.branch_task import BranchTask
from tasks.wiring.pipeline import BUILT_IN, load_pipeline
from tests.support.faults.observers import audited
from tests.support.pipelines.one_process import OneProcess
from tests.support.servers.redis_server import RedisServer

CYPHER_BY_STORE = {
    "knowledge": "MATCH (named:Document)-[:DEPENDS_ON]->(other) WHERE named.title IN $entities RETURN other.id AS id"
}
DECLARATION = f"""\
# what the agent may retrieve from
stores:
  documents: {{kind: embedded}}
  knowledge:
    kind: graph
    options: {{documents: documents, links: {{DEPENDS_ON: depends_on}}}}
  notes: {{kind: notebook}}
branches:
  words: {{kind: bm25, group: lexical, store: documents}}
  vectors: {{kind: vector, group: dense, store: documents}}
  listed: {{kind: document, group: listing, store: documents}}
  graph:
    kind: graph
    group: graph
    store: knowledge
    options:
      cypher: "{CYPHER_BY_STORE["knowledge"]}"
  notes: {{kind: note, group: notes, store: notes}}
  broken: {{kind: broken, group: broken, store: notes}}
configurations:
  rrf: {{method: rrf, branches: [words, vectors, listed, graph, notes]}}
  late: {{method: late-fusion, branches: [words, vectors]}}
  strict: {{method: rrf, branches: [words, broken]}}
"""
EXPLAINED = ["explanation", "metadata"]
QUERY = "What does the Payment Service need?"
DOCUMENTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "payment": ("Payment Service", "It takes cards.", {"depends_on": "Ledger", "published_at": "2024-03-01"}),
    "ledger": ("Ledger", "Rows are append-only.", {"published_at": "2024-01-01"}),
    "mail": ("Mailer", "Letters leave at noon.", {"published_at": "2024-02-01"}),
    "search": ("Search", "Indexes are rebuilt at night.", {"published_at": "2024-02-01"}),
    "login": ("Login", "Sessions last a day.", {}),
    "backup": ("Backup", "Tapes are kept for ten years.", {}),
}


class Notebook(TextsWithHits):
    """The framework's own store, as its `store_resolver` gives it."""


def _note(task: BranchTask) -> list[Ranking]:
    assert isinstance(task.store, Notebook)
    text = PassageText("payment#notes", "payment", "Payment Service", "", "Ask Ada about it.", {})
    hit = Hit(text.passage_id, text.document_id, 0.5)
    return [Ranking((hit,), texts={hit.passage_id: text}) for _ in task.questions]


def _broken(task: BranchTask) -> list[Ranking]:
    raise StoreUnavailable("the provider is gone")


KINDS = BUILT_IN | Kinds(
    stores={"notebook": StoreKind(lambda name, options: Notebook())},
    branches={"note": BranchKind(_note), "broken": BranchKind(_broken)},
)


@pytest.fixture(scope="module")
def framework(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneProcess]:
    file = tmp_path_factory.mktemp("agent") / "retrieval.yaml"
    file.write_text(DECLARATION)
    with RedisServer() as server, OneProcess(server, pipeline_file=file, kinds=KINDS) as here:
        for name, (title, text, metadata) in DOCUMENTS.items():
            here.index({name: (title, text)}, **metadata)
        yield here


@pytest.fixture
def client(framework: OneProcess) -> Iterator[Chorale]:
    """A client whose requests a thread answers."""
    stop = threading.Event()

    def serve() -> None:
        while not stop.wait(0.005):
            framework.work()

    thread = threading.Thread(target=serve, name="worker")
    thread.start()
    try:
        yield framework.client()
    finally:
        stop.set()
        thread.join()


def retrieve(here: OneProcess, query: Any = QUERY, *branches: str, **options: Any) -> Answer:
    chosen = {"branches": list(branches)} if branches else {}
    return here.ask(query, **{"cache": "bypass", **chosen, **options})


def ids(answer: Answer) -> list[str]:
    return [hit.document_id for hit in answer.hits]


def test_each_declared_store_has_its_branch_and_the_fused_best_five_are_the_result(
    framework: OneProcess,
) -> None:
    answer = retrieve(framework, include=EXPLAINED)
    assert (answer.status, len(answer.hits)) == ("complete", 5)
    assert ids(answer)[0] == "payment"
    # Every branch but the graph finds it: the document itself depends on another.
    assert sorted(answer.hits[0].found_by) == ["listed", "notes", "vectors", "words"]


def test_the_ranking_is_reciprocal_rank_fusion_and_another_method_can_take_its_place(
    framework: OneProcess,
) -> None:
    first = retrieve(framework, QUERY, "words", "vectors", include=EXPLAINED).hits[0]
    # First in both branches of weight 1, with k = 60.
    assert first.score == pytest.approx(2 / 61)
    assert first.score_kind == "rrf"
    for options, method in (({"fusion": "comb-sum"}, "comb-sum"), ({"configuration": "late"}, "late-fusion")):
        other = retrieve(framework, QUERY, "words", "vectors", include=EXPLAINED, **options).hits[0]
        assert (other.document_id, other.score_kind) == ("payment", method)


def test_a_store_of_the_frameworks_own_is_resolved_and_searched(framework: OneProcess) -> None:
    assert isinstance(framework.resources.store("notes"), Notebook)
    assert ids(retrieve(framework, QUERY, "notes")) == ["payment"]


def test_the_vector_branch_finds_by_meaning(framework: OneProcess) -> None:
    assert ids(retrieve(framework, "when does the post go out?", "vectors"))[0] == "mail"


def test_without_vectors_the_words_answer(framework: OneProcess) -> None:
    settings = {"CHORALE_EMBEDDER": "/no/such/model", "CHORALE_HOME": str(framework.home)}
    file = framework.resources.settings.pipeline_file
    with OneProcess(framework.server, environment=settings, pipeline_file=file, kinds=KINDS) as without:
        answer = retrieve(without, QUERY, "words", "vectors")
    assert (answer.status, ids(answer)[0]) == ("degraded", "payment")
    assert [(part.where, part.reason) for part in answer.degraded] == [("search.vectors", "model_missing")]


@pytest.mark.parametrize("query", [None, {"text": None}, "", "  "])
def test_a_query_that_is_none_gives_nothing_and_no_error(framework: OneProcess, query: Any) -> None:
    answer = retrieve(framework, query)
    assert (answer.status, answer.hits, answer.degraded) == ("skipped", (), ())


def test_the_document_store_lists_the_first_k_without_a_filter_in_a_stable_order_at_score_0(
    framework: OneProcess,
) -> None:
    # By date, newest first; equal dates by id; documents without a date last.
    expected = ["payment", "mail", "search", "ledger", "backup"]
    for _ in range(3):
        answer = retrieve(framework, QUERY, "listed", top_k=5, include=EXPLAINED)
        assert ids(answer) == expected
        assert {hit.branches["listed"].score for hit in answer.hits} == {0.0}
    assert ids(retrieve(framework, QUERY, "listed", top_k=2)) == expected[:2]
    filtered = retrieve(framework, QUERY, "listed", filters={"published_at": {"lt": "2024-02-01"}})
    assert ids(filtered) == ["ledger"]


def test_the_graph_branch_runs_the_cypher_of_its_store(framework: OneProcess) -> None:
    answer = retrieve(framework, QUERY, "words", "graph", include=EXPLAINED)
    found_by = {hit.document_id: list(hit.found_by) for hit in answer.hits}
    assert found_by["ledger"] == ["graph"]


def test_side_effects_follow_from_the_declaration_alone_and_are_the_same_at_each_reading(
    framework: OneProcess,
) -> None:
    declared = ("db.documents:read", "db.documents:write", "db.knowledge:read", "db.notes:read")
    assert framework.resources.pipeline.capabilities == declared
    file = framework.resources.settings.pipeline_file
    assert load_pipeline(file, KINDS).capabilities == declared


def test_a_keyword_that_writes_makes_the_store_one_that_is_written_and_needs_leave(
    framework: OneProcess,
) -> None:
    neo4j = "kind: neo4j\n    options: {url: 'bolt://127.0.0.1:7687', namespaces: [default]%s}"
    writes = DECLARATION.replace("RETURN other.id", "SET other.seen = true RETURN other.id").replace(
        "kind: graph\n    options: {documents: documents, links: {DEPENDS_ON: depends_on}}", neo4j, 1
    )
    file = framework.home / "writes.yaml"
    file.write_text(writes % "")
    with pytest.raises(WrongDeclaration, match=r"writes\.yaml:17: .*the statement writes \(SET\)"):
        load_pipeline(file, KINDS)
    file.write_text(writes % ", allow_write: true")
    assert load_pipeline(file, KINDS).capabilities[2:4] == ("db.knowledge:read", "db.knowledge:write")


def test_a_statement_in_the_body_of_an_http_store_is_read_for_keywords_that_write_too(
    framework: OneProcess,
) -> None:
    body = "body: {statement: '%s', question: '{question}'}"
    options = f"{{url: 'http://127.0.0.1:7474/', method: POST, hits: rows, id: id, {body}%s}}"
    remote = f"  remote: {{kind: http, options: {options}}}\n"
    declares = DECLARATION.replace(
        "branches:\n", remote + "branches:\n  remote: {kind: http, group: graph, store: remote}\n"
    )
    file = framework.home / "remote.yaml"
    for statement, leave, remote_capabilities in (
        ('MATCH (a) WHERE a.name <> "MERGE" RETURN a.id AS id', "", ("db.remote:read",)),
        ("MERGE (a:Seen) RETURN a.id AS id", ", allow_write: true", ("db.remote:read", "db.remote:write")),
    ):
        file.write_text(declares % (statement, leave))
        assert load_pipeline(file, KINDS).capabilities[4:] == remote_capabilities
    file.write_text(declares % ("MERGE (a:Seen) RETURN a.id AS id", ""))
    with pytest.raises(WrongDeclaration, match=r"the statement writes \(MERGE\)"):
        load_pipeline(file, KINDS)


class State(TypedDict, total=False):
    query: str | None
    retrieved: RetrievalResult


@pytest.fixture
def agent(framework: OneProcess, client: Chorale) -> Any:
    """A graph of the node alone."""
    options: Any = {"branches": ["words", "graph"], "cache": "bypass", "timeout_s": 30}
    graph = StateGraph(State)
    node = retrieval_node(framework.server.url, question="query", output="retrieved", options=options)
    graph.add_node("retrieve", node)
    graph.set_entry_point("retrieve")
    return graph.compile()


def test_the_node_reads_the_query_of_the_state_and_writes_what_was_retrieved(agent: Any) -> None:
    documents = agent.invoke({"query": QUERY})["retrieved"]["documents"]
    assert {one["document_id"] for one in documents} >= {"payment", "ledger"}


def test_an_event_for_each_branch_reaches_the_stream_of_the_graph(agent: Any) -> None:
    async def streamed() -> list[Any]:
        return [event async for event in agent.astream({"query": QUERY}, stream_mode="custom")]

    for events in (list(agent.stream({"query": QUERY}, stream_mode="custom")), asyncio.run(streamed())):
        branches = sorted((one["branch"], one["status"]) for one in events if one["stage"] == "branch")
        assert branches == [("graph", "ok"), ("words", "ok")]
        assert events[-1] == {"stage": "ended", "status": "complete"}


def test_a_recorded_retrieval_replays_to_the_same_result(framework: OneProcess) -> None:
    answer = retrieve(framework)
    framework.drain()
    again = replay(audited(framework, answer.request_id), framework.resources.pipeline)
    assert again.is_equal
    assert [hit.document_id for hit in again.questions[0].hits] == ids(answer)


def test_the_exception_of_a_provider_aborts_the_rest(framework: OneProcess) -> None:
    submit = partial(framework.submit, QUERY, configuration="strict", on_missing="fail", cache="bypass")
    request_id = submit()
    framework.work("chorale.broken", "chorale.fusion")
    answer = framework.answer(request_id)
    assert (answer.status, answer.hits) == ("failed", ())
    reasons = {part.where: part.reason for part in answer.degraded}
    assert reasons == {"search.broken": "unavailable", "search.words": "cancelled"}


def test_the_engine_ends_a_task_group_in_which_a_branch_never_answers(framework: OneProcess) -> None:
    request_id = framework.submit(QUERY, branches=["words", "vectors"], cache="bypass")
    framework.work("chorale.words")
    answer = framework.end_late(request_id)
    assert (answer.status, ids(answer)) == ("degraded", ["payment"])
    assert [(part.where, part.reason) for part in answer.degraded] == [("search.vectors", "not_started")]
