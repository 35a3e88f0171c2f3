"""LangGraph's node: `pip install -e './client[langgraph]'`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Literal, TypedDict, cast

from chorale_client.adapters import needs
from chorale_client.adapters.connection import Connection, Retrieved, retrieved
from chorale_client.answer import Answer, Degradation
from chorale_client.coverage import Coverage
from chorale_client.errors import InvalidRequest, ServiceUnavailable, safe_repr
from chorale_client.events import OnEvent
from chorale_client.request import Question
from chorale_client.request_factory import BoostOptions, RequestOptions, make_request
from chorale_client.wire_names import Reason, Stage, Status

with needs("langgraph"):
    from langchain_core.runnables import Runnable, RunnableLambda
    from langgraph.config import get_stream_writer

log = logging.getLogger(__name__)

_OF_THE_QUESTION = (
    "variants", "hypothetical_documents", "bm25_query", "vector_query", "entity_query", "hypothetical_document"
)  # fmt: skip
"""Keys that go with the question, as `Question` takes them."""
_EXPANSIONS = ("query_variants", "hyde_result")
"""Keys of the state whose value may have these keys too."""
_ROUTING = "routing_decision"


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
    routing_decision: dict[str, Any]
    """The decision of an earlier node.  Its `needs_retrieval` takes precedence over the state's own."""
    retrieval_options: RequestOptions
    """The rest of the routing decision: fields of `Request`, such as `namespace`, `branches` or `filters`."""
    boosts: BoostOptions | Literal["off"]
    """The boosts of the request, unless `retrieval_options` has some."""
    query_variants: dict[str, Any]
    """What an expanding step has written: the four keys from `variants` on; others are ignored."""
    hyde_result: dict[str, Any]
    """Its `hypothetical_document` or `hypothetical_documents`; others are ignored."""
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
    output: str = "retrieval_result",
    replace: bool = False,
    as_list: bool = False,
) -> Runnable[Any, dict[str, Any]]:
    """A node for `StateGraph.add_node` that writes the state's key `output`: a `RetrievalResult`.

    With `as_list` the node writes the documents alone, a `list[RetrievedPassage]`, and the coverage to the key
    `<output>_coverage`, if the state has it.

    The node raises nothing: after an error there are no documents, and the coverage says what is wrong.  A degraded answer
    has the documents that were found; with `options={"on_missing": "empty"}` it has none.  The node writes each event of
    the request, `{"stage": "branch", "branch": …, "status": …}` for a branch, to the graph's stream (`custom`).

    `question` is the state's key, or a function of the state.  With `replace` the state's variants are searched in the
    question's place, otherwise beside it.
    """
    connection = Connection(redis_url, broker_url=broker_url, options=options, raises=False)

    def written(retrieved: Retrieved) -> dict[str, Any]:
        result = _result(retrieved)
        if as_list:
            return {output: result["documents"], f"{output}_coverage": result["coverage"]}
        return {output: result}

    def retrieve(state: Any) -> dict[str, Any]:
        try:
            retrieved = connection.ask(*_request(state, question, replace), on_event=_on_event())
        except Exception as error:  # a graph goes on without documents
            retrieved = _failed(error)
        return written(retrieved)

    async def retrieve_async(state: Any) -> dict[str, Any]:
        try:
            parsed = _request(state, question, replace)
            retrieved = await connection.ask_async(*parsed, on_event=_on_event())
        except Exception as error:
            retrieved = _failed(error)
        return written(retrieved)

    return RunnableLambda(retrieve, afunc=retrieve_async, name="chorale")


def _on_event() -> OnEvent | None:
    """Writes to the stream of the graph; None outside of a graph."""
    try:
        write = get_stream_writer()
    except (RuntimeError, KeyError):
        return None
    return lambda event: write(event.to_wire())


def _request(
    state: Any, question: str | Callable[[Any], str], replace: bool
) -> tuple[Question, dict[str, Any]]:
    """The question with its variants and hypotheses, and the options of the routing decision.  Raises InvalidRequest."""
    text = question(state) if callable(question) else _read(state, question)
    sources = (*(_object(state, name) for name in _EXPANSIONS), state)
    parts = {
        name: value
        for source in sources
        for name in _OF_THE_QUESTION
        if (value := _read(source, name)) is not None
    }
    options = dict(_object(state, "retrieval_options") or {})
    if (boosts := _read(state, "boosts")) is not None:
        options.setdefault("boosts", boosts)
    for source in (state, _object(state, _ROUTING)):
        if (needed := _read(source, "needs_retrieval")) is not None:
            options["needs_retrieval"] = needed
    present = [name for name, value in parts.items() if value]
    if present and (text is None or not str(text).strip()) and options.get("needs_retrieval") is not False:
        key = "question" if callable(question) else question
        raise InvalidRequest(f"{key}: the state has {', '.join(present)}, but no question")
    parsed = make_request({"text": text, **parts}).questions[0]
    if replace:
        variants = [variant.model_copy(update={"replace": True}) for variant in parsed.variants]
        parsed = parsed.model_copy(update={"variants": tuple(variants)})
    return parsed, options


def _object(state: Any, name: str) -> Any:
    """The state's value under this name, which has fields, or None.  Raises InvalidRequest for a text, a number or a list."""
    value = _read(state, name)
    if isinstance(value, str | bytes | int | float | list | tuple):
        raise InvalidRequest(f"{name}: an object with fields, not {safe_repr(value)}")
    return value


def _failed(error: Exception) -> Retrieved:
    detail = f"{type(error).__name__}: {error}"
    log.warning("no documents: %s", detail)
    reason = Reason.UNAVAILABLE if isinstance(error, ServiceUnavailable) else Reason.ERROR
    why = Degradation(where=str(Stage.PLAN), reason=str(reason), detail=detail)
    return retrieved(Answer(request_id="", status=str(Status.FAILED), degraded=(why,)))


def _read(state: Any, name: str) -> Any:
    return state.get(name) if isinstance(state, Mapping) else getattr(state, name, None)


def _result(retrieved: Retrieved) -> RetrievalResult:
    rows = [asdict(document) for document in retrieved.documents]
    documents = [cast("RetrievedPassage", {"id": row.pop("passage_id"), **row}) for row in rows]
    return RetrievalResult(documents=documents, coverage=retrieved.coverage)
