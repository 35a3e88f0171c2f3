"""LangGraph's node, in a compiled graph."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from tests.contracts.adapter import PATIENT, QUESTION, AdapterContract, Found, patient
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import free_port


class TestLangGraph(AdapterContract):
    def ask(self, url: str, question: str, **options: Any) -> Found:
        return found(graph(url).invoke({"question": question, "retrieval_options": options}))

    async def ask_async(self, url: str, question: str, **options: Any) -> Found:
        return found(await graph(url).ainvoke({"question": question, "retrieval_options": options}))

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


def node(url: str, **given: Any) -> Any:
    # It takes seconds, in each process that collects the tests.
    from chorale_client.adapters.langgraph import retrieval_node

    return retrieval_node(url, **given)


def compiled(node: Any, state: type, **given: Any) -> Any:
    from langgraph.graph import END, START, StateGraph

    graph: Any = StateGraph(state)
    graph.add_node("retrieve", node)
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", END)
    return graph.compile(**given)


def found(state: dict[str, Any]) -> Found:
    result = state["retrieval_result"]
    documents = [(one["document_id"], one["text"], one["score"]) for one in result["documents"]]
    return Found(documents, result["coverage"])


def test_a_degraded_answer_is_empty_unless_the_graph_wants_what_was_found(pipeline: RunningPipeline) -> None:
    options = {"branches": ["bm25", "raises"], **PATIENT}
    empty = found(graph(pipeline.server.url, **options).invoke({"question": QUESTION}))
    assert (empty.documents, empty.coverage["status"]) == ([], "degraded")
    assert empty.coverage["branches"] == {"bm25": "ok", "raises": "error"}
    partial = found(
        graph(pipeline.server.url, on_missing="degrade", **options).invoke({"question": QUESTION})
    )
    assert partial.ids[0] == "repairs"


def test_the_routing_decision_is_read_from_the_state(pipeline: RunningPipeline) -> None:
    made = graph(pipeline.server.url, branches=["bm25"], **PATIENT)
    skipped = found(made.invoke({"question": QUESTION, "needs_retrieval": False}))
    assert (skipped.documents, skipped.coverage["status"]) == ([], "skipped")
    routed = {"branches": ["vector"], "filters": {"year": 2020}}
    assert found(made.invoke({"question": QUESTION, "retrieval_options": routed})).ids == ["error"]


def test_an_event_for_each_branch_reaches_the_stream_of_the_graph(pipeline: RunningPipeline) -> None:
    made = graph(pipeline.server.url, branches=["bm25", "vector"], **PATIENT)
    asked: Any = {"question": QUESTION}

    async def streamed() -> list[Any]:
        return [event async for event in made.astream(asked, stream_mode="custom")]

    for events in (list(made.stream(asked, stream_mode="custom")), asyncio.run(streamed())):
        branches = sorted((one["branch"], one["status"]) for one in events if one["stage"] == "branch")
        assert branches == [("bm25", "ok"), ("vector", "ok")]
        assert events[-1] == {"stage": "ended", "status": "complete"}


def test_variants_and_hypotheses_are_read_from_the_state(pipeline: RunningPipeline) -> None:
    made = graph(pipeline.server.url, branches=["bm25"], **PATIENT)
    assert found(made.invoke({"question": "zeppelin"})).documents == []
    for more in (
        {"bm25_query": "landlord repairs"},
        {
            "variants": [{"kind": "keyword", "text": "landlord repairs"}],
            "hypothetical_documents": ["He pays."],
        },
    ):
        assert found(made.invoke({"question": "zeppelin", **more})).ids[0] == "repairs"


def test_the_question_may_be_any_part_of_the_state(pipeline: RunningPipeline) -> None:
    options = patient(branches=["bm25"])
    last = node(pipeline.server.url, options=options, question=lambda state: state["messages"][-1])
    assert found(last.invoke({"messages": ["Hello.", QUESTION]})).ids[0] == "repairs"


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
    assert found(made.get_state(config).values).ids[0] == "repairs"
