"""The agent framework's retrieval node: declared stores with a branch for each, a fan-out, fused top-k, and side effects by capability."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, TypedDict

import pytest
from chorale_client import Answer
from chorale_client.adapters.langgraph import RetrievalResult, retrieval_node
from langgraph.graph import StateGraph

from models.declarations.extensions import BranchKind, Kinds, StoreKind
from models.documents import PassageText
from models.hits import Hit, Ranking
from search.texts_with_hits import TextsWithHits
from tasks.branches.branch_task import BranchTask
from tasks.wiring.pipeline import BUILT_IN, load_pipeline
from tests.acceptance.first_systems.conftest import answering
from tests.support.pipelines.one_process import OneProcess
from tests.support.servers.redis_server import RedisServer

CYPHER = "MATCH (named:Document)-[:DEPENDS_ON]->(other) WHERE named.title IN $entities RETURN other.id AS id"
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
      cypher: "{CYPHER}"
  notes: {{kind: note, group: notes, store: notes}}
configurations:
  rrf: {{method: rrf, branches: [words, vectors, listed, graph, notes]}}
  late: {{method: late-fusion, branches: [words, vectors]}}
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


KINDS = BUILT_IN | Kinds(
    stores={"notebook": StoreKind(lambda name, options: Notebook())}, branches={"note": BranchKind(_note)}
)


@pytest.fixture(scope="module")
def framework(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneProcess]:
    file = tmp_path_factory.mktemp("agent") / "retrieval.yaml"
    file.write_text(DECLARATION)
    with RedisServer() as server, OneProcess(server, pipeline_file=file, kinds=KINDS) as here:
        for name, (title, text, metadata) in DOCUMENTS.items():
            here.index({name: (title, text)}, **metadata)
        yield here


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
    # The framework's own store, the Cypher of the graph, and the vectors by meaning.
    assert isinstance(framework.resources.store("notes"), Notebook)
    assert ids(retrieve(framework, QUERY, "notes")) == ["payment"]
    with_graph = retrieve(framework, QUERY, "words", "graph", include=EXPLAINED)
    assert {hit.document_id: hit.found_by for hit in with_graph.hits}["ledger"] == ("graph",)
    assert ids(retrieve(framework, "when does the post go out?", "vectors"))[0] == "mail"


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


def test_side_effects_follow_from_the_declaration_alone_and_are_the_same_at_each_reading(
    framework: OneProcess,
) -> None:
    declared = ("db.documents:read", "db.documents:write", "db.knowledge:read", "db.notes:read")
    assert framework.resources.pipeline.capabilities == declared
    file = framework.resources.settings.pipeline_file
    assert load_pipeline(file, KINDS).capabilities == declared


class State(TypedDict, total=False):
    query: str | None
    retrieved: RetrievalResult


def test_the_node_reads_the_query_writes_what_was_retrieved_and_tells_the_stream_of_each_branch(
    framework: OneProcess,
) -> None:
    options: Any = {"branches": ["words", "graph"], "cache": "bypass", "timeout_s": 30}
    graph = StateGraph(State)
    node = retrieval_node(framework.server.url, question="query", output="retrieved", options=options)
    graph.add_node("retrieve", node)
    graph.set_entry_point("retrieve")
    agent = graph.compile()

    async def streamed() -> list[Any]:
        return [event async for event in agent.astream({"query": QUERY}, stream_mode="custom")]

    with answering(framework):
        documents = agent.invoke({"query": QUERY})["retrieved"]["documents"]
        streams = [list(agent.stream({"query": QUERY}, stream_mode="custom")), asyncio.run(streamed())]
    assert {one["document_id"] for one in documents} >= {"payment", "ledger"}
    for events in streams:
        branches = sorted((one["branch"], one["status"]) for one in events if one["stage"] == "branch")
        assert branches == [("graph", "ok"), ("words", "ok")]
        assert events[-1] == {"stage": "ended", "status": "complete"}
