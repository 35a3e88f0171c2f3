"""A server of the Model Context Protocol: `pip install -e './client[mcp]'`, or `chorale mcp`."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import Field
from typing_extensions import TypedDict

from chorale_client.adapters import needs
from chorale_client.adapters.connection import Connection, Retrieved, RetrievedDocument
from chorale_client.adapters.framework_filters import all_of
from chorale_client.coverage import Coverage
from chorale_client.errors import ChoraleError, ServiceUnavailable, safe_repr
from chorale_client.request import Request
from chorale_client.request_factory import Questions, RequestOptions
from chorale_client.wire_names import NO_NAMESPACE, THERE_ARE

with needs("mcp"):
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp_types import ToolAnnotations

log = logging.getLogger(__name__)

INSTRUCTIONS = """\
Search documents by their meaning and their words.  `search` finds documents and `fetch` reads one of them; \
`chorale_search` returns the passages themselves, takes filters, and says what the answer covers.  Every answer has \
`coverage`: if its `missing` is not empty, some of the sources did not answer, and there may be more to find."""

MOST_PASSAGES = 500
"""Maximum number of passages that `fetch` returns."""

Query = Annotated[str, Field(description="What to look for: a question, or words.")]
Identifier = Annotated[str, Field(description="The `id` of a result.")]
TopK = Annotated[int, Field(description="Maximum number of documents.", ge=1, le=1_000)]
Filters = Annotated[
    dict[str, Any],
    Field(
        description="Conditions on the documents' metadata, of which all must hold: {field: value | [values] | "
        "{gt, gte, lt, lte, exists, not, contains}}.  Dates are ISO 8601."
    ),
]
Branches = Annotated[list[str], Field(description="Only these sources; all by default.")]
Namespace = Annotated[
    str, Field(description="The collection of documents; the server's first one by default.")
]


class Result(TypedDict):
    """A document that was found."""

    id: str
    title: str
    url: str
    """`chorale://<namespace>/<id>` if the document has no address."""


class Results(TypedDict):
    """Documents, best first."""

    results: list[Result]
    coverage: Coverage


class Passage(Result):
    """A document with the passage that answers best."""

    text: str
    score: float
    metadata: dict[str, Any]


class Passages(TypedDict):
    """Passages, best first."""

    results: list[Passage]
    coverage: Coverage


class FetchedDocument(Result):
    """A document's text."""

    text: str
    """The passages that were found, in their order."""
    metadata: dict[str, Any]
    """Also `passages`, the number of passages in `text`."""
    coverage: Coverage


Allow = Callable[[Request], Request]
"""Returns the request that is sent in place of this one, or raises InvalidRequest or ToolError.

A limit of `fetch` that the caller has not chosen is not among the request's `model_fields_set`, and may be lowered.
"""


def mcp_server(
    redis_url: str | Mapping[str, str] | None = None,
    *,
    broker_url: str | None = None,
    answer_ttl_s: float = 600,
    options: RequestOptions | None = None,
    namespaces: Sequence[str] | None = None,
    allow: Allow = lambda request: request,
    **server: Any,
) -> MCPServer:
    """A server with the tools `search`, `fetch` and `chorale_search`, to run by stdio or HTTP.

    `redis_url` may also be the addresses of cells by their names, and by default is CHORALE_CELLS, if that is set.
    `options` are fields of `Request` for every call; no tool finds what their `filters` leave out.  Only `namespaces` are
    searched, the first one by default; without them only the namespace of the options, or `default`.  `server` are arguments of MCPServer.
    """
    connection = Connection(redis_url, options=options, broker_url=broker_url, answer_ttl_s=answer_ttl_s)
    filters = (options or {}).get("filters", {})
    if namespaces is None:
        namespaces = [str((options or {}).get("namespace", "default"))]
    tools = _Tools(connection, filters, tuple(namespaces), allow)
    mcp = MCPServer(**{"name": "chorale", "instructions": INSTRUCTIONS, "log_level": "WARNING"} | server)
    for tool in (tools.search, tools.fetch, tools.chorale_search):
        reads = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
        mcp.add_tool(tool, annotations=reads, structured_output=True)
    return mcp


@dataclass(frozen=True)
class _Tools:
    """The docstrings of its methods are what a model reads."""

    connection: Connection
    filters: Mapping[str, Any]
    """The conditions that hold for every call, beside the call's own."""
    namespaces: tuple[str, ...]
    allow: Allow

    async def search(self, query: Query) -> Results:
        """Find documents.  Read one with `fetch` and its id."""
        retrieved = await self._ask(query)
        return Results(
            results=[_result(document, self.namespaces[0]) for document in retrieved.documents],
            coverage=retrieved.coverage,
        )

    async def fetch(self, id: Identifier, namespace: Namespace | None = None) -> FetchedDocument:
        """Read the text of a document that a search has found."""
        options = {"filters": {"document_id": id}, "fuse_by": "passage", "rerank": "off"}
        # With variants and a hypothesis of its own, a question is not sent to a language model.
        variants = [{"kind": kind, "text": id} for kind in ("keyword", "semantic")]
        question = {"text": id, "variants": variants, "hypothetical_documents": [id]}
        retrieved = await self._ask(question, namespace, top_k=MOST_PASSAGES, is_own_choice=False, **options)
        if not retrieved.documents:
            missing = "; ".join(
                f"{part['where']}: {part['reason']}" for part in retrieved.coverage["missing"]
            )
            raise ToolError(
                f"no text of {safe_repr(id)} was found"
                + (f", but these are missing: {missing}" if missing else "")
            )
        parts = sorted(retrieved.documents, key=_place)
        return FetchedDocument(
            **_result(parts[0], self._namespace(namespace)),
            text="\n\n".join(part.text for part in parts),
            metadata=_document_metadata(parts[0].metadata) | {"passages": len(parts)},
            coverage=retrieved.coverage,
        )

    async def chorale_search(
        self,
        query: Query,
        top_k: TopK | None = None,
        filters: Filters | None = None,
        branches: Branches | None = None,
        namespace: Namespace | None = None,
    ) -> Passages:
        """Find passages, with filters, and say what the answer covers."""
        retrieved = await self._ask(query, namespace, top_k=top_k, filters=filters, branches=branches)
        results = [
            Passage(
                **_result(document, self._namespace(namespace)),
                text=document.text,
                score=document.score,
                metadata=document.metadata,
            )
            for document in retrieved.documents
        ]
        return Passages(results=results, coverage=retrieved.coverage)

    async def _ask(
        self, question: Questions, namespace: str | None = None, *, is_own_choice: bool = True, **options: Any
    ) -> Retrieved:
        chosen = {name: value for name, value in options.items() if value is not None}
        chosen["filters"] = all_of([*self.filters.items(), *chosen.get("filters", {}).items()])
        try:
            request = self.connection.request(question, {"namespace": self._namespace(namespace)}, chosen)
            if not is_own_choice:
                request.model_fields_set.discard("top_k")
            allowed = self.allow(await self.connection.with_default_timeout(request))
            return await self.connection.ask_request(allowed)
        except ServiceUnavailable as error:
            # The error has addresses, which are no business of a caller by HTTP.
            log.warning("%s", error)
            raise ToolError("Chorale does not answer; ask again later") from error
        except ChoraleError as error:
            message = str(error)
            # Other namespaces are no business of a caller by HTTP either.
            if message.startswith(NO_NAMESPACE):
                message = message.partition(THERE_ARE)[0]
            raise ToolError(message) from error

    def _namespace(self, name: str | None) -> str:
        if name is not None and name not in self.namespaces:
            raise no_namespace(name)
        return name or self.namespaces[0]


def no_namespace(name: str) -> ToolError:
    """The error for a namespace that is not there, or that the caller may not know."""
    return ToolError(f"there is no namespace {safe_repr(name)} here")


def _result(document: RetrievedDocument, namespace: str) -> Result:
    url = document.url or f"chorale://{namespace}/{quote(document.document_id, safe='')}"
    return Result(id=document.document_id, title=document.title, url=url)


_PASSAGE_FIELDS = ("passage_id", "rank", "score", "score_kind", "found_by")


def _document_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if name not in _PASSAGE_FIELDS}


def _place(document: RetrievedDocument) -> int:
    """Passages that Chorale split have their place at the end of the id; others keep the order of their rank."""
    number = re.search(r"#(\d+)$", document.passage_id)
    return int(number[1]) if number else int(document.metadata["rank"])
