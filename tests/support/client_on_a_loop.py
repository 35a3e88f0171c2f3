"""`AsyncChorale` with the interface of `Chorale`, so that both clients keep one contract."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from typing import Any, Self, TypeVar, cast

from chorale_client import Answer, AsyncChorale, AsyncHandle, Chorale, Event, Handle, Indexed, Request

T = TypeVar("T")


class ClientOnALoop:
    """A client on an event loop of its own, whose methods may be called from any thread."""

    def __init__(self, redis_url: str, **options: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        self.client = self.run(self._make(redis_url, **options))

    async def _make(self, redis_url: str, **options: Any) -> AsyncChorale:
        return AsyncChorale(redis_url, **options)

    def run(self, doing: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(doing, self.loop).result()

    def close(self) -> None:
        self.run(self.client.aclose())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def retrieve(self, questions: Any, **options: Any) -> Answer:
        return self.run(self.client.retrieve(questions, **options))

    def ask(self, request: Request) -> Answer:
        return self.run(self.client.ask(request))

    def submit(self, questions: Any, **options: Any) -> Handle:
        return self._handle(self.run(self.client.submit(questions, **options)))

    def submit_request(self, request: Request) -> Handle:
        return self._handle(self.run(self.client.submit_request(request)))

    def handle(self, request_id: str) -> Handle:
        return self._handle(self.client.handle(request_id))

    def answer(self, request_id: str, *, wait_s: float = 0) -> Answer:
        return self.run(self.client.answer(request_id, wait_s=wait_s))

    def events(self, request_id: str, *, after: str = "") -> Iterator[Event]:
        events = self.client.events(request_id, after=after)
        try:
            while (event := self.run(_next(events))) is not None:
                yield event
        finally:
            self.run(events.aclose())

    def cancel(self, request_id: str) -> Answer:
        return self.run(self.client.cancel(request_id))

    def upsert(self, namespace: str, documents: Any, **options: Any) -> str:
        return self.run(self.client.upsert(namespace, documents, **options))

    def delete(self, namespace: str, ids: Any) -> str:
        return self.run(self.client.delete(namespace, ids))

    def wait_visible(self, ticket: str, *, wait_s: float = 30) -> Indexed:
        return self.run(self.client.wait_visible(ticket, wait_s=wait_s))

    def _handle(self, handle: AsyncHandle) -> Handle:
        return Handle(cast("Chorale", self), handle.id, handle.accepted)


async def _next(events: AsyncGenerator[Event, None]) -> Event | None:
    return await anext(events, None)
