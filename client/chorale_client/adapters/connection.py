"""The connection of an adapter.

A process has one synchronous client for equal addresses, and one asynchronous client for these addresses in each event
loop, however many retrievers it makes.  An asynchronous client closes when its event loop shuts down (`asyncio.run` does that).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from chorale_client.answer import Answer, Hit
from chorale_client.asynchronous.cells import AsyncCells
from chorale_client.asynchronous.client import AsyncChorale
from chorale_client.cells import Cells, from_environment
from chorale_client.client import Chorale
from chorale_client.connections.urls import address_of
from chorale_client.coverage import Coverage, coverage_of
from chorale_client.errors import InvalidRequest
from chorale_client.events import OnEvent
from chorale_client.request import Request
from chorale_client.request_factory import Questions, RequestOptions, make_request
from chorale_client.wire_names import NO_NAMESPACE

_FIELDS = ("source_type", "published_at", "language", "url")


@dataclass(frozen=True, slots=True)
class RetrievedDocument:
    """A hit: the best passage of a document, or with `fuse_by="passage"` one of its passages."""

    passage_id: str
    document_id: str
    title: str
    """The document's id if it has no title."""
    text: str
    """The passage, or its snippet or title if no store had the text in time."""
    url: str | None
    score: float
    metadata: dict[str, Any]
    """JSON values: the document's own metadata, its ids and other fields, `rank`, `score`, `score_kind`, `found_by`, and with
    `include: explanation` its `boosts`."""


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The hits of an answer's first question, best first."""

    documents: tuple[RetrievedDocument, ...]
    coverage: Coverage


def retrieved(answer: Answer) -> Retrieved:
    """The documents and the coverage of an answer.  An answer without hits has no documents."""
    return Retrieved(tuple(map(_document, answer.hits)), coverage_of(answer))


def _document(hit: Hit) -> RetrievedDocument:
    title = hit.title or hit.document_id
    fields = {name: value for name in _FIELDS if (value := getattr(hit, name)) is not None}
    return RetrievedDocument(
        passage_id=hit.passage_id,
        document_id=hit.document_id,
        title=title,
        text=hit.text or (hit.snippet.text if hit.snippet else None) or title,
        url=hit.url,
        score=hit.score,
        metadata={
            **hit.metadata,
            **fields,
            "title": title,
            "document_id": hit.document_id,
            "passage_id": hit.passage_id,
            "rank": hit.rank,
            "score": hit.score,
            "score_kind": hit.score_kind,
            "found_by": list(hit.found_by),
            **({"boosts": dict(hit.boosts)} if hit.boosts else {}),
        },
    )


OnCoverage = Callable[[Coverage], None]
"""Called with the coverage of each answer; an answer without documents has no other place for it."""

_Arguments = tuple[tuple[str, Any], ...]
_Addresses = tuple[tuple[str, str], ...]
"""By the name of the cell; without cells the name is empty."""


class Connection:
    """Opens nothing before its first use.  Threads and event loops may share one connection."""

    def __init__(
        self,
        redis_url: str | Mapping[str, str] | None = None,
        *,
        options: RequestOptions | None = None,
        on_coverage: OnCoverage | None = None,
        raises: bool = True,
        **client: Any,
    ) -> None:
        """`redis_url` and `client` are arguments of `Chorale`; `redis_url` may also be the addresses of cells by their names, and
        by default is CHORALE_CELLS, if that is set.  Without `raises`, an answer from a namespace that is not there has no
        documents."""
        self._raises = raises
        address = redis_url or dict(from_environment(client.get("broker_url"))) or address_of()
        addresses = {"": address_of(address)} if isinstance(address, str) else address
        self._address = tuple(addresses.items()), tuple(sorted(client.items()))
        self._options, self._on_coverage = options, on_coverage

    def ask(
        self, question: Questions, *options: Mapping[str, Any] | None, on_event: OnEvent | None = None
    ) -> Retrieved:
        """Ask and wait.  Later options win.  Raises InvalidRequest (also for a namespace that is not there), RequestIdConflict,
        ServiceUnavailable."""
        request = self.request(question, *options)
        return self._read(_synchronous(*self._address).ask(request, on_event=on_event))

    async def ask_async(
        self, question: Questions, *options: Mapping[str, Any] | None, on_event: OnEvent | None = None
    ) -> Retrieved:
        """Like `ask`; a cancelled task cancels its request."""
        return await self.ask_request(self.request(question, *options), on_event=on_event)

    async def ask_request(self, request: Request, *, on_event: OnEvent | None = None) -> Retrieved:
        """Like `ask_async`, for a request of `request`."""
        chorale = await _asynchronous(*self._address)
        return self._read(await chorale.ask(request, on_event=on_event))

    async def with_default_timeout(self, request: Request) -> Request:
        """The request with its configuration's own time limit, if it has none of its own."""
        return await (await _asynchronous(*self._address)).with_default_timeout(request)

    def request(self, question: Questions, *options: Mapping[str, Any] | None) -> Request:
        """A checked request with the options of the connection and these; later ones win.  Without an `include` the hits have
        metadata and whole texts.  Raises InvalidRequest."""
        merged: dict[str, Any] = {"include": ("ids", "metadata", "texts")}
        for layer in (self._options, *options):
            merged |= layer or {}
        return make_request(question, **cast("RequestOptions", merged))

    def _read(self, answer: Answer) -> Retrieved:
        for part in answer.degraded if self._raises else ():
            if part.detail.startswith(NO_NAMESPACE):
                raise InvalidRequest(part.detail)
        result = retrieved(answer)
        if self._on_coverage is not None:
            self._on_coverage(result.coverage)
        return result


@lru_cache(16)
def _synchronous(addresses: _Addresses, client: _Arguments) -> Cells:
    return Cells({name: Chorale(url, **dict(client)) for name, url in addresses})


_OPEN: dict[tuple[asyncio.AbstractEventLoop, _Addresses, _Arguments], AsyncGenerator[AsyncCells, None]] = {}


async def _asynchronous(addresses: _Addresses, client: _Arguments) -> AsyncCells:
    key = asyncio.get_running_loop(), addresses, client
    if key not in _OPEN:
        for closed in [opened for opened in list(_OPEN) if opened[0].is_closed()]:
            _OPEN.pop(closed, None)
        _OPEN[key] = _client_of_the_loop(addresses, client)
    return await anext(_OPEN[key])


async def _client_of_the_loop(addresses: _Addresses, client: _Arguments) -> AsyncGenerator[AsyncCells, None]:
    """The same client again and again.  An event loop that shuts down closes the generators that have begun in it; this one
    then closes the client."""
    cells = {name: AsyncChorale(url, **dict(client)) for name, url in addresses}
    async with AsyncCells(cells) as chorale:
        while True:
            yield chorale
