"""LangGraph's node, in a compiled graph."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest

from tests.contracts.adapter import PATIENT, QUESTION, AdapterAnswer, AdapterContract, patient
from tests.support.faults.moments import joining_without_one_branch
from tests.support.pipelines.pipeline import CORPUS, RunningPipeline
from tests.support.servers.redis_server import free_port


class TestLangGraph(AdapterContract):
    def ask(self, url: str, question: str, **options: Any) -> AdapterAnswer:
        return converted(graph(url).invoke({"question": question, "retrieval_options": options}))

    async def ask_async(self, url: str, question: str, **options: Any) -> AdapterAnswer:
        return converted(await graph(url).ainvoke({"question": question, "retrieval_options": options}))

    def test_a_wrong_option_and_a_redis_that_is_away_are_errors(self, pipeline: RunningPipeline) -> None:
        """They are in the result, so that the graph goes on."""
        wrong = self.ask(pipeline.server.url, QUESTION, top_k=0)
        away = asyncio.run(self.ask_async(f"redis://127.0.0.1:{free_port()}/0", QUESTION))
        for result, error in ((wrong, "InvalidRequest: top_k: "), (away, "ServiceUnavailable: ")):
            assert (result.documents, result.coverage["status"]) == ([], "failed")
            assert result.coverage["missing"][0]["detail"].startswith(error)


def graph(url: str, **options: Any) -> Any:
    from chorale_client.adapters.langgraph import RetrievalState

    return compiled(node(url, options=options), RetrievalState)


def node(url: str, **arguments: Any) -> Any:
    # It takes seconds, in each process that collects the tests.
    from chorale_client.adapters.langgraph import retrieval_node

    return retrieval_node(url, **arguments)


def compiled(node: Any, state: type, **arguments: Any) -> Any:
    from langgraph.graph import END, START, StateGraph

    graph: Any = StateGraph(state)
    graph.add_node("retrieve", node)
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", END)
    return graph.compile(**arguments)


def converted(state: dict[str, Any]) -> AdapterAnswer:
    result = state["retrieval_result"]
    documents = [(one["document_id"], one["text"], one["score"]) for one in result["documents"]]
    return AdapterAnswer(documents, result["coverage"])


def test_without_a_branch_that_is_late_a_graph_gets_the_documents_of_the_others_and_the_reason(
    pipeline: RunningPipeline,
) -> None:
    late = graph(pipeline.server.url, branches=["bm25", "late"], **PATIENT)
    with joining_without_one_branch(pipeline):
        partial = converted(late.invoke({"question": QUESTION}))
    assert (partial.ids[0], partial.coverage["status"]) == ("repairs", "degraded")
    assert partial.coverage["branches"]["bm25"] == "ok"
    (missing,) = partial.coverage["missing"]
    assert missing["where"] == "search.late"
    assert missing["reason"] in {"timeout", "not_started", "late"}


def test_a_degraded_answer_is_empty_if_the_graph_wants_all_or_nothing(pipeline: RunningPipeline) -> None:
    options = {"branches": ["bm25", "raises"], "on_missing": "empty", **PATIENT}
    empty = converted(graph(pipeline.server.url, **options).invoke({"question": QUESTION}))
    assert (empty.documents, empty.coverage["status"]) == ([], "degraded")
    assert empty.coverage["branches"] == {"bm25": "ok", "raises": "error"}


class ListState(TypedDict, total=False):
    query: str
    retrieved: list[Any]
    retrieved_coverage: dict[str, Any]


def test_the_node_may_write_a_list_of_hits_with_the_coverage_beside_it(pipeline: RunningPipeline) -> None:
    options = patient(branches=["bm25", "raises"])
    listing = node(pipeline.server.url, question="query", output="retrieved", as_list=True, options=options)
    state = compiled(listing, ListState).invoke({"query": QUESTION})
    assert state["retrieved"][0]["document_id"] == "repairs"
    assert state["retrieved"][0]["text"] == CORPUS["repairs"][1]
    assert state["retrieved_coverage"]["branches"] == {"bm25": "ok", "raises": "error"}
    assert compiled(listing, ListState).invoke({})["retrieved"] == []


@pytest.mark.parametrize("place", ["state", "options of the state", "options of the node"])
def test_boosts_are_given_by_the_state_or_the_request(pipeline: RunningPipeline, place: str) -> None:
    """The document of 2024 has the better score, and the other one a source type that counts ten times."""
    boosts = {"authority": {"manual": 10.0}, "max_places": None}
    options = patient(branches=["bm25"], include=["ids", "metadata", "texts", "explanation"])
    inputs: dict[str, Any] = {"question": "landlord pays for repairs of the disk"}
    plain = converted(compiled(node(pipeline.server.url, options=options), dict).invoke(inputs))
    assert plain.ids == ["repairs", "error"]
    if place == "state":
        inputs["boosts"] = boosts
    elif place == "options of the state":
        inputs |= {"retrieval_options": {"boosts": boosts}, "boosts": "off"}
    else:
        options["boosts"] = boosts
    state = compiled(node(pipeline.server.url, options=options), dict).invoke(inputs)
    assert converted(state).ids == ["error", "repairs"]
    assert state["retrieval_result"]["documents"][0]["metadata"]["boosts"] == {"authority": 10.0}


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ({"query_variants": {"bm25_query": "repairs"}}, "question: the state has bm25_query, but no question"),
        ({"question": " ", "bm25_query": "repairs"}, "question: the state has bm25_query, but no question"),
        (
            {"hyde_result": {"hypothetical_documents": ["He pays."]}},
            "question: the state has hypothetical_documents, but no question",
        ),
        ({"question": QUESTION, "query_variants": "repairs"}, "query_variants: an object with fields, not 'repairs'"),
        ({"question": QUESTION, "hyde_result": "He pays."}, "hyde_result: an object with fields, not 'He pays.'"),
        ({"question": QUESTION, "routing_decision": False}, "routing_decision: an object with fields, not False"),
        ({"question": QUESTION, "retrieval_options": "docs"}, "retrieval_options: an object with fields, not 'docs'"),
    ],
)  # fmt: skip
def test_a_state_with_a_wrong_field_is_an_error_that_names_the_field(
    pipeline: RunningPipeline, state: dict[str, Any], error: str
) -> None:
    result = converted(graph(pipeline.server.url, branches=["bm25"]).invoke(state))
    assert (result.documents, result.coverage["status"]) == ([], "failed")
    assert result.coverage["missing"][0]["detail"] == f"InvalidRequest: {error}"


def test_rewrites_without_a_question_are_no_error_where_nothing_is_to_be_searched(
    pipeline: RunningPipeline,
) -> None:
    state = {"needs_retrieval": False, "query_variants": {"bm25_query": "repairs"}}
    assert converted(graph(pipeline.server.url).invoke(state)).coverage["status"] == "skipped"


def test_the_routing_decision_is_read_from_the_state(pipeline: RunningPipeline) -> None:
    made = graph(pipeline.server.url, branches=["bm25"], **PATIENT)
    skipped = converted(made.invoke({"question": QUESTION, "needs_retrieval": False}))
    assert (skipped.documents, skipped.coverage["status"]) == ([], "skipped")
    routed = {"branches": ["vector"], "filters": {"year": 2020}}
    assert converted(made.invoke({"question": QUESTION, "retrieval_options": routed})).ids == ["error"]


def test_an_event_for_each_branch_reaches_the_stream_of_the_graph(pipeline: RunningPipeline) -> None:
    made = graph(pipeline.server.url, branches=["bm25", "vector"], **PATIENT)
    inputs: Any = {"question": QUESTION}

    async def streamed() -> list[Any]:
        return [event async for event in made.astream(inputs, stream_mode="custom")]

    for events in (list(made.stream(inputs, stream_mode="custom")), asyncio.run(streamed())):
        branches = sorted((one["branch"], one["status"]) for one in events if one["stage"] == "branch")
        assert branches == [("bm25", "ok"), ("vector", "ok")]
        assert events[-1] == {"stage": "ended", "status": "complete"}


def test_variants_and_hypotheses_are_read_from_the_state(pipeline: RunningPipeline) -> None:
    made = graph(pipeline.server.url, branches=["bm25"], **PATIENT)
    assert converted(made.invoke({"question": "zeppelin"})).documents == []
    for more in (
        {"bm25_query": "landlord repairs"},
        {
            "variants": [{"kind": "keyword", "text": "landlord repairs"}],
            "hypothetical_documents": ["He pays."],
        },
    ):
        assert converted(made.invoke({"question": "zeppelin", **more})).ids[0] == "repairs"


def test_the_question_may_be_any_part_of_the_state(pipeline: RunningPipeline) -> None:
    options = patient(branches=["bm25"])
    last = node(pipeline.server.url, options=options, question=lambda state: state["messages"][-1])
    assert converted(last.invoke({"messages": ["Hello.", QUESTION]})).ids[0] == "repairs"


@dataclass
class State:
    question: str
    needs_retrieval: bool = True
    retrieval_result: dict[str, Any] | None = None


def test_a_checkpoint_holds_the_result_and_the_state_may_be_a_class(pipeline: RunningPipeline) -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    lexical = node(pipeline.server.url, options=patient(branches=["bm25"]))
    made = compiled(lexical, State, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    made.invoke(State(QUESTION), config)
    assert converted(made.get_state(config).values).ids[0] == "repairs"
