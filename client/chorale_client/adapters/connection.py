"""The connection of an adapter.

A process has one synchronous client for each address, and one asynchronous client for each address and event loop, however
many retrievers it makes.  An asynchronous client closes when its event loop shuts down (`asyncio.run` does that).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import lru_cache
from typing import Any

from chorale_client.adapters.retrieved import Retrieved, retrieved, with_texts
from chorale_client.answer import Answer
from chorale_client.asynchronous.client import AsyncChorale
from chorale_client.client import Chorale
from chorale_client.coverage import Coverage
from chorale_client.errors import InvalidRequest
from chorale_client.redis_urls import address_of
from chorale_client.request import Request
from chorale_client.request_factory import Questions, make_request
from chorale_client.request_options import RequestOptions
from chorale_client.wire_names import NO_NAMESPACE

OnCoverage = Callable[[Coverage], None]
"""Called with the coverage of each answer; an answer without documents has no other place for it."""

_Arguments = tuple[tuple[str, Any], ...]


class Connection:
    """Opens nothing before its first use.  Threads and event loops may share one connection."""

    def __init__(
        self,
        redis_url: str | None = None,
        *,
        options: RequestOptions | None = None,
        on_coverage: OnCoverage | None = None,
        raises: bool = True,
        **client: Any,
    ) -> None:
        """`redis_url` and `client` are arguments of `Chorale`.  Without `raises`, an answer from a namespace that is not there
        has no documents."""
        self._raises = raises
        self._address = address_of(redis_url), tuple(sorted(client.items()))
        self._options, self._on_coverage = options, on_coverage

    def ask(self, question: Questions, *options: Mapping[str, Any] | None) -> Retrieved:
        """Ask and wait.  Later options win.  Raises InvalidRequest (also for a namespace that is not there), RequestIdConflict,
        ServiceUnavailable."""
        return self._read(_synchronous(*self._address).ask(self.request(question, *options)))

    async def ask_async(self, question: Questions, *options: Mapping[str, Any] | None) -> Retrieved:
        """Like `ask`; a cancelled task cancels its request."""
        return await self.ask_request(self.request(question, *options))

    async def ask_request(self, request: Request) -> Retrieved:
        """Like `ask_async`, for a request of `request`."""
        chorale = await _asynchronous(*self._address)
        return self._read(await chorale.ask(request))

    async def with_default_timeout(self, request: Request) -> Request:
        """The request with its configuration's own time limit, if it has none of its own."""
        return await (await _asynchronous(*self._address)).with_default_timeout(request)

    def request(self, question: Questions, *options: Mapping[str, Any] | None) -> Request:
        """A checked request with the options of the connection and these.  Raises InvalidRequest."""
        return make_request(question, **with_texts(self._options, *options))

    def _read(self, answer: Answer) -> Retrieved:
        for one in answer.degraded if self._raises else ():
            if one.detail.startswith(NO_NAMESPACE):
                raise InvalidRequest(one.detail)
        found = retrieved(answer)
        if self._on_coverage is not None:
            self._on_coverage(found.coverage)
        return found


@lru_cache(16)
def _synchronous(redis_url: str, client: _Arguments) -> Chorale:
    return Chorale(redis_url, **dict(client))


_OPEN: dict[
    tuple[asyncio.AbstractEventLoop, str, _Arguments], tuple[AsyncChorale, AsyncGenerator[None, None]]
] = {}


async def _asynchronous(redis_url: str, client: _Arguments) -> AsyncChorale:
    loop = asyncio.get_running_loop()
    key = loop, redis_url, client
    if key not in _OPEN:
        for closed in [one for one in list(_OPEN) if one[0].is_closed()]:
            _OPEN.pop(closed, None)
        chorale = AsyncChorale(redis_url, **dict(client))
        closing = _close_with_the_loop(chorale)
        _OPEN[key] = chorale, closing
        await anext(closing)
    return _OPEN[key][0]


async def _close_with_the_loop(chorale: AsyncChorale) -> AsyncGenerator[None, None]:
    """An event loop that shuts down closes the generators that have begun in it; this one closes the client."""
    async with chorale:
        yield
