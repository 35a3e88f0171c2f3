"""`AsyncChorale`: what `Chorale` does, for programs with an event loop, which it never blocks."""

from __future__ import annotations

import asyncio
import math
from asyncio import CancelledError
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Self, TypeVar, Unpack

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from chorale_client import ledger
from chorale_client.answer import Answer
from chorale_client.asynchronous.announcements import Announcements, Listener
from chorale_client.asynchronous.connections import Commands, checking, until
from chorale_client.client import (
    ATTEMPTS_TO_ACCEPT,
    FINISH_S,
    LOOKUP_S,
    POLL_S,
    RECONNECT_S,
    UNTIL_THE_END_S,
    Chorale,
    RequestHandle,
)
from chorale_client.connections.failover import follow_primary
from chorale_client.connections.greeting import LOGIN_ALONE
from chorale_client.connections.idle import keep_alive
from chorale_client.connections.urls import address_of
from chorale_client.default_timeout import DefaultTimes
from chorale_client.errors import ServiceUnavailable, UnknownRequest
from chorale_client.events import Event, OnEvent, Progress, Standing, standing
from chorale_client.index_tickets import Indexed, outcome_of
from chorale_client.keys import result_key
from chorale_client.ledger import GRACE_S, Accepted
from chorale_client.request import Request
from chorale_client.request_factory import Questions, RequestOptions, make_request
from chorale_client.sans_io import TRANSIENT, Exchange, read_answer, unavailable
from chorale_client.tenants import Namespace
from chorale_client.wire_names import Status

T = TypeVar("T")

UNSURE_S = 0.25
"""After this time a call looks for a result that was perhaps announced before its subscription."""
MOST_CONNECTIONS = 16
"""Maximum number of commands at the same time; further ones wait."""


class AsyncChorale:
    """Belongs to the event loop in which it is first used; all tasks of the loop share one client.

    Close it with `async with` or `aclose()`.  The arguments are those of `Chorale`.
    """

    def __init__(
        self,
        redis_url: str | None = None,
        *,
        broker_url: str | None = None,
        answer_ttl_s: float = 600,
        socket_timeout_s: float = 2,
        replicas: int = 0,
    ) -> None:
        url = address_of(redis_url)
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=MOST_CONNECTIONS,
            timeout=None,
            socket_timeout=socket_timeout_s,
            socket_connect_timeout=socket_timeout_s,
            retry=Retry(NoBackoff(), 0),
            **LOGIN_ALONE,
            **keep_alive(url),
        )
        follow_primary(pool)
        pool.connection_class = checking(pool.connection_class)
        self._redis = Redis.from_pool(pool)
        self._commands = Commands(self._redis, attempt_s=socket_timeout_s / 2)
        self._announcements = Announcements(pool)
        self._patience_s = socket_timeout_s
        self._replicas = ledger.check_replicas(replicas)
        self._answer_ttl_ms = int(answer_ttl_s * 1000)
        self._default_times = DefaultTimes()
        self._blocking = Chorale(
            url, broker_url=broker_url, answer_ttl_s=answer_ttl_s, socket_timeout_s=socket_timeout_s
        )
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="chorale-documents")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Send what is not sent yet, and close every connection.  Calls that still wait get ServiceUnavailable."""
        await self._commands.close()
        await self._announcements.close()
        await asyncio.to_thread(self._close_threads)
        await self._redis.aclose()

    def _close_threads(self) -> None:
        self._threads.shutdown()
        self._blocking.close()

    async def retrieve(self, questions: Questions, **options: Unpack[RequestOptions]) -> Answer:
        """Ask and wait for the answer, at most `timeout_s`.  If the task is cancelled, the request is cancelled too.

        `options` are the fields of `Request`.  Raises InvalidRequest (nothing was enqueued), RequestIdConflict,
        ServiceUnavailable.
        """
        return await self.ask(make_request(questions, **options))

    async def ask(self, request: Request, *, on_event: OnEvent | None = None) -> Answer:
        """Like `retrieve`, for a request of `make_request`; calls `on_event` with each of its events."""
        begun_s = asyncio.get_running_loop().time()
        request = await self.with_default_timeout(request)
        ends_at_s = begun_s + request.timeout_s + GRACE_S
        accepted: Accepted | None = None
        try:
            async with until(ends_at_s + FINISH_S):
                with self._announcements.listening(result_key(request.request_id)) as listener:
                    accepted = await self._enqueue(request, ends_at_s - GRACE_S)
                    listener.set_accepted()
                    if accepted.state == Status.REFUSED:
                        # Unread, its announcement would end the next request with this id.
                        await listener.wait(asyncio.get_running_loop().time() + FINISH_S)
                    if on_event is not None and accepted.is_new:
                        # The answer does not depend on its events.
                        with suppress(ServiceUnavailable, UnknownRequest):
                            async for event in self.events(request.request_id, limit_s=request.timeout_s):
                                on_event(event)
                    result = accepted.result or await self._end(
                        listener, request.request_id, ends_at_s, request
                    )
                return read_answer(request.request_id, result or await self._finish(request, accepted))
        except CancelledError:
            if accepted is not None and accepted.is_new:
                self._commands.begin(ledger.cancel(request.request_id))
            raise
        except (RedisError, TimeoutError) as error:
            raise unavailable(error, accepted=request.request_id if accepted else None) from error

    async def submit(self, questions: Questions, **options: Unpack[RequestOptions]) -> AsyncHandle:
        """Enqueue, and return a handle of the request at once.  Raises as `retrieve`."""
        return await self.submit_request(make_request(questions, **options))

    async def submit_request(self, request: Request) -> AsyncHandle:
        """Like `submit`, for a request of `make_request`.  The handle says whether the request is new."""
        request = await self.with_default_timeout(request)
        until_s = asyncio.get_running_loop().time() + self._patience_s
        accepted = await _in_time(self._enqueue(request, replicas=self._replicas), until_s)
        return AsyncHandle(self, request.request_id, accepted)

    def handle(self, request_id: str) -> AsyncHandle:
        """The handle of a request that was sent earlier, by any client."""
        return AsyncHandle(self, request_id)

    async def answer(self, request_id: str, *, wait_s: float = 0) -> Answer:
        """As `Chorale.answer`."""
        until_s = asyncio.get_running_loop().time() + wait_s
        return read_answer(
            request_id,
            await _in_time(self._wait_for_result(request_id, wait_s, until_s), until_s + self._patience_s),
        )

    async def _wait_for_result(self, request_id: str, wait_s: float, until_s: float) -> bytes:
        result = None
        if wait_s > 0:
            with self._announcements.listening(result_key(request_id), is_accepted=True) as listener:
                result = await self._end(listener, request_id, until_s)
        if result is None:
            result = await self._commands.run_exchange(ledger.end_of(request_id))
        return result

    async def events(
        self, request_id: str, *, after: str = "", limit_s: float = math.inf
    ) -> AsyncGenerator[Event, None]:
        """As `Chorale.events`."""
        loop = asyncio.get_running_loop()
        progress, ends_at_s = Progress(request_id, after), loop.time() + limit_s
        with self._announcements.listening(result_key(request_id), is_accepted=True) as listener:
            while True:
                for event in await self._run_exchange(progress.poll()):
                    yield event
                if progress.is_over or loop.time() > ends_at_s:
                    return
                listener.must_read = False
                await listener.wait(loop.time() + progress.pause_s())

    async def standing(self, request_id: str) -> Standing | None:
        """How far a request in flight is; None if it has ended, or is unknown.  Raises ServiceUnavailable."""
        return await self._run_exchange(standing(request_id))

    async def cancel(self, request_id: str) -> Answer:
        """As `Chorale.cancel`."""
        if (result := await self._run_exchange(ledger.cancel(request_id))) is None:
            raise UnknownRequest(request_id)
        return read_answer(request_id, result)

    async def upsert(
        self,
        namespace: str,
        documents: Sequence[Mapping[str, Any]],
        *,
        source: str = "task",
        encoder: str | None = None,
        tenant: str | None = None,
    ) -> str:
        """As `Chorale.upsert`."""
        named: dict[str, Any] = {"source": source, "encoder": encoder, "tenant": tenant}
        return await self._in_a_thread(self._blocking.upsert, namespace, documents, **named)

    async def delete(self, namespace: str, ids: Sequence[str], *, tenant: str | None = None) -> str:
        """As `Chorale.delete`."""
        return await self._in_a_thread(self._blocking.delete, namespace, ids, tenant=tenant)

    async def delete_namespace(self, namespace: str, *, tenant: str | None = None) -> str:
        """As `Chorale.delete_namespace`."""
        return await self._in_a_thread(self._blocking.delete_namespace, namespace, tenant=tenant)

    async def namespaces(
        self, *, after: str = "", limit: int = 1_000, names: Collection[str] | None = None
    ) -> Sequence[Namespace]:
        """As `Chorale.namespaces`."""
        return await self._in_a_thread(self._blocking.namespaces, after=after, limit=limit, names=names)

    async def wait_visible(self, ticket: str, *, wait_s: float = 30) -> Indexed:
        """As `Chorale.wait_visible`."""
        loop = asyncio.get_running_loop()
        ends_at_s = loop.time() + wait_s
        while True:
            is_last = loop.time() >= ends_at_s
            if (outcome := await self._run_exchange(outcome_of(ticket, is_last=is_last))) is not None:
                return outcome
            await asyncio.sleep(min(POLL_S, max(0.0, ends_at_s - loop.time())))

    async def _enqueue(
        self, request: Request, ends_at_s: float | None = None, *, replicas: int = 0
    ) -> Accepted:
        message = self._blocking.message(request.request_id)
        for attempt in range(1, ATTEMPTS_TO_ACCEPT + 1):
            try:
                # This time is spent before the request is accepted.
                await self._commands.connect()
                within_s = None if ends_at_s is None else ends_at_s - asyncio.get_running_loop().time()
                more: dict[str, Any] = {"within_s": within_s, "message": message, "replicas": replicas}
                steps = ledger.accept(request, answer_ttl_ms=self._answer_ttl_ms, **more)
                accepted = await self._commands.run_exchange(steps, self._cancel_accepted)
                break
            except TRANSIENT:
                if attempt == ATTEMPTS_TO_ACCEPT:
                    raise
        if accepted.is_new and not message:
            # If this message cannot be published, the sweeper sends another one soon.
            self._blocking.publisher.send(request.request_id, within_s=request.timeout_s)
        return accepted

    def _cancel_accepted(self, accepted: Accepted) -> None:
        """The caller was cancelled before it knew of the acceptance."""
        if accepted.is_new:
            self._commands.begin(ledger.cancel(accepted.request_id))

    async def _end(
        self, listener: Listener, request_id: str, until_s: float, request: Request | None = None
    ) -> bytes | None:
        """The result, announced or found; None after `until_s`.  A lost connection is bridged.

        A `request` is entered again then: a new primary may lack it, and one that it knows stays as it is.
        """
        loop = asyncio.get_running_loop()
        while listener.result is None and loop.time() < until_s:
            await listener.wait(min(until_s, loop.time() + UNSURE_S) if listener.is_unsure else until_s)
            if listener.must_read or (listener.is_unsure and listener.result is None):
                try:
                    listener.must_read = listener.is_unsure = False
                    if request is not None and listener.is_lost:
                        result = (await self._enqueue(request, until_s - GRACE_S)).result
                        listener.is_lost = False
                    else:
                        result = await self._commands.run_exchange(ledger.result(request_id))
                    if result is not None:
                        return result
                except TRANSIENT:
                    listener.must_read = True
                    await asyncio.sleep(RECONNECT_S)
        return listener.result

    async def _finish(self, request: Request, accepted: Accepted) -> bytes:
        """The result of a request whose end was not heard in time.  If the request has no end yet, this ends it."""
        if (result := await self._commands.run_exchange(ledger.result(request.request_id))) is not None:
            await self._announcements.renew()
            return result
        steps = ledger.finish_failed(request, accepted.accepted_at_ms, answer_ttl_ms=self._answer_ttl_ms)
        # Redis has just answered, so the first attempt gets all the time that is left.
        async with until(math.inf):
            return await self._commands.run_exchange(steps)

    async def has_workers(self) -> bool:
        """As `Chorale.has_workers`."""
        return await self._run_exchange(ledger.has_workers())

    async def with_default_timeout(self, request: Request) -> Request:
        """The request with its configuration's own time limit, if it has none of its own."""
        if not self._default_times.needs_redis(request):
            return self._default_times.last_known(request)
        try:
            async with until(asyncio.get_running_loop().time() + LOOKUP_S):
                return await self._commands.run_exchange(self._default_times.apply(request))
        except TimeoutError:
            return self._default_times.last_known(request)

    async def _run_exchange(self, steps: Exchange[T]) -> T:
        until_s = asyncio.get_running_loop().time() + self._patience_s
        return await _in_time(self._commands.run_exchange(steps), until_s)

    async def _in_a_thread(self, call: Callable[..., T], *arguments: Any, **options: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(call, *arguments, **options))


async def _in_time(doing: Coroutine[Any, Any, T], until_s: float) -> T:
    try:
        async with until(until_s):
            return await doing
    except (RedisError, TimeoutError) as error:
        raise unavailable(error) from error


class AsyncHandle(RequestHandle):
    """A request of `AsyncChorale`.  The methods are those of `Handle`."""

    def __init__(self, client: AsyncChorale, request_id: str, accepted: Accepted | None = None) -> None:
        super().__init__(request_id, accepted)
        self._client = client

    async def answer(self, timeout_s: float | None = None) -> Answer:
        return await self._client.answer(self.id, wait_s=UNTIL_THE_END_S if timeout_s is None else timeout_s)

    def events(self, *, after: str = "") -> AsyncGenerator[Event, None]:
        return self._client.events(self.id, after=after)

    async def cancel(self) -> Answer:
        return await self._client.cancel(self.id)
