"""A request that was sent, as an object: its id, and the calls that read it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import Generic, Literal, Protocol, TypeVar

from chorale_client.answer import Answer
from chorale_client.events import Event
from chorale_client.ledger import Accepted

UNTIL_THE_END_S = 61.0
"""A little more than the longest `timeout_s`: every request has ended by then."""

Client = TypeVar("Client")


class _Client(Protocol):
    def answer(self, request_id: str, *, wait_s: float = 0) -> Answer: ...
    def events(self, request_id: str, *, after: str = "") -> Iterator[Event]: ...
    def cancel(self, request_id: str) -> Answer: ...


class _AsyncClient(Protocol):
    async def answer(self, request_id: str, *, wait_s: float = 0) -> Answer: ...
    def events(self, request_id: str, *, after: str = "") -> AsyncGenerator[Event, None]: ...
    async def cancel(self, request_id: str) -> Answer: ...


class _RequestHandle(Generic[Client]):
    def __init__(self, client: Client, request_id: str, accepted: Accepted | None = None) -> None:
        self._client = client
        self.id = request_id
        self.accepted = accepted
        """How the ledger accepted the request; None for a handle of an id."""

    @property
    def state(self) -> Literal["new", "known", "ended"] | None:
        """How the ledger accepted it: the request is `new`, or an equal request with this id was `known` or had `ended`.  A request
        that is refused under overload has ended.  None for a handle of an id."""
        if self.accepted is None:
            return None
        return "new" if self.accepted.is_new else "known" if self.accepted.result is None else "ended"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r}, state={self.state!r})"


class Handle(_RequestHandle[_Client]):
    """A request of `Chorale`."""

    def answer(self, timeout_s: float | None = None) -> Answer:
        """The answer; waits until the end of the request, at most `timeout_s`.

        Raises NotEnded, UnknownRequest, ServiceUnavailable.
        """
        return self._client.answer(self.id, wait_s=UNTIL_THE_END_S if timeout_s is None else timeout_s)

    def events(self, *, after: str = "") -> Iterator[Event]:
        """The events of the request until its end; `after` is the id of the last event that the caller has.

        Raises UnknownRequest, ServiceUnavailable.
        """
        return self._client.events(self.id, after=after)

    def cancel(self) -> Answer:
        """End the request as `cancelled`.  Returns the answer it ended with, now or before.

        Raises UnknownRequest, ServiceUnavailable.
        """
        return self._client.cancel(self.id)


class AsyncHandle(_RequestHandle[_AsyncClient]):
    """A request of `AsyncChorale`.  The methods are those of `Handle`."""

    async def answer(self, timeout_s: float | None = None) -> Answer:
        return await self._client.answer(self.id, wait_s=UNTIL_THE_END_S if timeout_s is None else timeout_s)

    def events(self, *, after: str = "") -> AsyncGenerator[Event, None]:
        return self._client.events(self.id, after=after)

    async def cancel(self) -> Answer:
        return await self._client.cancel(self.id)
