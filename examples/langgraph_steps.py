"""A graph of three nodes: one decides whether to search, one rewrites the question, and Chorale retrieves.

The two nodes before the retrieval stand for calls of a language model.
"""

from typing import Any, TypedDict

from chorale_client.adapters.langgraph import RetrievalResult, retrieval_node
from langgraph.graph import END, START, StateGraph


class State(TypedDict, total=False):
    question: str
    routing_decision: dict[str, Any]
    query_variants: dict[str, Any]
    hyde_result: dict[str, Any]
    retrieval_result: RetrievalResult


def classify(state: State) -> State:
    return {"routing_decision": {"needs_retrieval": state["question"].endswith("?")}}


def expand(state: State) -> State:
    return {
        "query_variants": {"bm25_query": "landlord repairs", "vector_query": "who has to mend a flat"},
        "hyde_result": {"hypothetical_document": "The landlord has to pay for repairs of the flat."},
    }


def build_graph(redis_url: str | None = None, **options: Any) -> Any:
    """`options` are those of `compile`, such as a checkpointer."""
    graph = StateGraph(State)
    graph.add_node("classify", classify)
    graph.add_node("expand", expand)
    graph.add_node("retrieve", retrieval_node(redis_url, options={"namespace": "docs", "timeout_s": 10}))
    graph.add_edge(START, "classify")
    graph.add_edge("classify", "expand")
    graph.add_edge("expand", "retrieve")
    graph.add_edge("retrieve", END)
    return graph.compile(**options)


if __name__ == "__main__":
    state = build_graph().invoke({"question": "Who pays for repairs?"})
    for rank, document in enumerate(state["retrieval_result"]["documents"], start=1):
        print(rank, document["title"])
