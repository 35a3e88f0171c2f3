"""`AsyncCells`: what `Cells` does, for programs with an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Self, TypeVar, Unpack

from chorale_client.answer import Answer
from chorale_client.asynchronous.client import AsyncChorale, AsyncHandle
from chorale_client.cells import Placement, from_environment
from chorale_client.events import OnEvent
from chorale_client.request import Request
from chorale_client.request_factory import Questions, RequestOptions, make_request

T = TypeVar("T")


class AsyncCells(Placement[AsyncChorale]):
    """As `Cells`, with the clients of one event loop.  Close it with `async with` or `aclose()`, which close the clients."""

    def __init__(self, cells: Mapping[str, AsyncChorale] | None = None) -> None:
        super().__init__(
            {name: AsyncChorale(url) for name, url in from_environment()} if cells is None else cells
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        for cell in self._cells.values():
            await cell.aclose()

    async def retrieve(self, questions: Questions, **options: Unpack[RequestOptions]) -> Answer:
        """As `AsyncChorale.retrieve`.  Raises as `Cells.retrieve`."""
        return await self.ask(make_request(questions, **options))

    async def ask(self, request: Request, *, on_event: OnEvent | None = None) -> Answer:
        """Like `retrieve`, for a request of `make_request`; calls `on_event` with each of its events."""
        return await self._at_the_first(request, partial(AsyncChorale.ask, on_event=on_event))

    async def submit(self, questions: Questions, **options: Unpack[RequestOptions]) -> AsyncHandle:
        """As `AsyncChorale.submit`."""
        return await self.submit_request(make_request(questions, **options))

    async def submit_request(self, request: Request) -> AsyncHandle:
        """As `AsyncChorale.submit_request`."""
        return await self._at_the_first(request, AsyncChorale.submit_request)

    async def with_default_timeout(self, request: Request) -> Request:
        """As `AsyncChorale.with_default_timeout`, by the cell that is the first to get the request."""
        return await self._cells[self._order(request)[0]].with_default_timeout(request)

    async def _at_the_first(self, request: Request, do: Callable[[AsyncChorale, Request], Awaitable[T]]) -> T:
        for name, cell, named, attempt, needs_workers in self._attempts(request):
            with attempt:
                if needs_workers:
                    self._require_workers(name, has_workers=await cell.has_workers())
                return await do(cell, named)
        raise AssertionError("the last cell has answered or raised")
