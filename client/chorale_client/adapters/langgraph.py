"""LangGraph's node: `pip install -e './client[langgraph]'`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypedDict, cast

from chorale_client.adapters import needs
from chorale_client.adapters.connection import Connection, Retrieved
from chorale_client.coverage import Coverage
from chorale_client.request_factory import RequestOptions

with needs("langgraph"):
    from langchain_core.runnables import Runnable, RunnableLambda

_OF_THE_QUESTION = (
    "variants", "hypothetical_documents", "bm25_query", "vector_query", "entity_query", "hypothetical_document"
)  # fmt: skip
"""Keys of the state that go with the question, as `Question` takes them."""


class RetrievedPassage(TypedDict):
    """One document of a result."""

    id: str
    """The passage's id."""
    document_id: str
    title: str
    text: str
    url: str | None
    score: float
    metadata: dict[str, Any]


class RetrievalResult(TypedDict):
    """What the node writes, in plain JSON values."""

    documents: list[RetrievedPassage]
    coverage: Coverage


class RetrievalState(TypedDict, total=False):
    """The keys of a graph's state that the node reads and writes; a graph's own state may have more."""

    question: str
    needs_retrieval: bool
    """The routing decision.  False: the request ends as `skipped`, without documents."""
    retrieval_options: RequestOptions
    """The rest of the routing decision: fields of `Request`, such as `namespace`, `branches` or `filters`."""
    variants: list[dict[str, Any]]
    bm25_query: str
    vector_query: str
    entity_query: str
    hypothetical_document: str
    hypothetical_documents: list[str]
    retrieval_result: RetrievalResult


def retrieval_node(
    redis_url: str | None = None,
    *,
    broker_url: str | None = None,
    options: RequestOptions | None = None,
    question: str | Callable[[Any], str] = "question",
) -> Runnable[Any, dict[str, RetrievalResult]]:
    """A node for `StateGraph.add_node` that writes `retrieval_result`, also of a request that failed.

    `question` is the state's key, or a function of the state.  A degraded answer has no documents (`on_missing: empty`),
    so that a graph goes on without context or asks elsewhere; with `options={"on_missing": "degrade"}` it has those that
    were found.
    """
    connection = Connection(
        redis_url, broker_url=broker_url, options={"on_missing": "empty", **(options or {})}, raises=False
    )

    def retrieve(state: Any) -> dict[str, RetrievalResult]:
        return {"retrieval_result": _result(connection.ask(*_request(state, question)))}

    async def retrieve_async(state: Any) -> dict[str, RetrievalResult]:
        return {"retrieval_result": _result(await connection.ask_async(*_request(state, question)))}

    return RunnableLambda(retrieve, afunc=retrieve_async, name="chorale")


def _request(state: Any, question: str | Callable[[Any], str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The question with its variants and hypotheses, and the options of the routing decision."""
    text = question(state) if callable(question) else _read(state, question)
    parts = {name: value for name in _OF_THE_QUESTION if (value := _read(state, name)) is not None}
    options = dict(_read(state, "retrieval_options") or {})
    if (needed := _read(state, "needs_retrieval")) is not None:
        options["needs_retrieval"] = needed
    return {"text": text, **parts}, options


def _read(state: Any, name: str) -> Any:
    return state.get(name) if isinstance(state, Mapping) else getattr(state, name, None)


def _result(retrieved: Retrieved) -> RetrievalResult:
    rows = [asdict(document) for document in retrieved.documents]
    documents = [cast("RetrievedPassage", {"id": row.pop("passage_id"), **row}) for row in rows]
    return RetrievalResult(documents=documents, coverage=retrieved.coverage)
