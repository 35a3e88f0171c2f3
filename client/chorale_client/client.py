"""The thin client: `Chorale` sends questions and documents to a running pipeline."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

from redis import Redis
from redis.client import PubSub
from redis.exceptions import RedisError

from chorale_client.answer import Answer
from chorale_client.connections.failover import follow_primary
from chorale_client.connections.greeting import LOGIN_ALONE
from chorale_client.connections.idle import keep_alive
from chorale_client.connections.time_limit import TimeLimit, TwoAttempts, enforce
from chorale_client.connections.tls import share_context
from chorale_client.connections.urls import BROKER_VARIABLE, address_of, is_same_server
from chorale_client.default_timeout import DefaultTimes
from chorale_client.documents import WrittenDocument, checked_list, write_documents
from chorale_client.errors import InvalidRequest, QueueFull, ServiceUnavailable, UnknownRequest
from chorale_client.events import Event, OnEvent, Progress
from chorale_client.index_tickets import (
    Indexed,
    doubt_message,
    forget_message,
    new_ticket,
    outcome_of,
    stamp_of_message,
)
from chorale_client.keys import result_key
from chorale_client.ledger import GRACE_S, Accepted, CallersLedger, check_replicas, end_of, has_workers
from chorale_client.limits import MAX_DELETED
from chorale_client.request import Request, check_namespace
from chorale_client.request_factory import Questions, RequestOptions, make_request
from chorale_client.retrieve_message import retrieve_message
from chorale_client.sans_io import TRANSIENT, read_answer, redis_errors_translated, unavailable
from chorale_client.service_calls import ServiceCall
from chorale_client.tenants import Namespace
from chorale_client.wire_names import TASK_DELETE, TASK_INDEX, WIRE_VERSION, Status

if TYPE_CHECKING:
    from chorale_client.jobs.handles import Jobs
    from chorale_client.publisher import Publisher

ATTEMPTS_TO_ACCEPT = 2
"""The first attempt may use a connection that a restarted server has closed."""
RECONNECT_S = 0.05
"""Pause between attempts to reconnect for an accepted request."""
FINISH_S = 0.15
"""Time to end a request after GRACE_S, when the wait for it is over; then the caller gets ServiceUnavailable.  It is enough for two commands
to a Redis whose replies take 50 ms.  Every caller has an answer or an error .3 s after its deadline.  Both times together leave .06 s of
it to threads that wait for a processor."""

POLL_S = 0.05
"""Pause between two checks whether documents are indexed."""

MOST_CONNECTIONS = 2**31
"""Each thread that plans or waits has its own connections; the pool's default limit of 100 would refuse further threads."""
LOOKUP_S = 0.3
"""Maximum time to ask for the installation's time limit, for a request that has none."""
UNTIL_THE_END_S = 61.0
"""A little more than the longest `timeout_s`: every request has ended by then."""

_FIRST_USE = threading.RLock()
"""A thread holds this lock while it imports what a client needs late, and forks wait for the lock.  Otherwise a child would have the locks
of the import without the thread that releases them."""
os.register_at_fork(
    before=_FIRST_USE.acquire, after_in_parent=_FIRST_USE.release, after_in_child=_FIRST_USE.release
)


class Chorale:
    """Sends questions to a running pipeline and reads answers.

    `redis_url` is the Redis of the pipeline, and `broker_url` Celery's broker, if that is another server.  By default they are
    those of the variables CHORALE_REDIS_URL and CHORALE_BROKER_URL, which `chorale env` prints; without the first one
    `redis://localhost:6379/0`, without the second one the pipeline's Redis.  Addresses of redis-py and of Celery are
    taken.  Threads may share one client; each thread waits on its own connection.  With `replicas`, `send` and `submit`
    return when so many replicas of Redis have the request: a failover to one of them does not lose it.  Raises ValueError for a
    wrong address or number.
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
        self._patience_s = socket_timeout_s
        self._replicas = check_replicas(replicas)
        self._limit = TimeLimit()
        attempts = TwoAttempts(self._limit, socket_timeout_s)
        self._redis = self._connected(url, retry=attempts, retry_on_error=list(TRANSIENT))
        # A subscription that is made anew may have missed its announcement, so redis-py must not do that unnoticed.
        self._subscribing = self._connected(url)
        self._ledger = CallersLedger(self._redis, answer_ttl_s=answer_ttl_s)
        self._default_times = DefaultTimes()
        self._broker_url = broker_url or os.environ.get(BROKER_VARIABLE) or url
        self._ledger_sends = is_same_server(self._broker_url, url)
        self._publisher: Publisher | None = None
        if not self._ledger_sends:
            _ = self.publisher  # it imports Celery now, not while a request waits
        self._local = threading.local()

    @property
    def jobs(self) -> Jobs:
        """Bulk jobs."""
        with _FIRST_USE:
            from chorale_client.jobs.handles import Jobs

        return Jobs(self._redis, socket_timeout_s=self._patience_s)

    @property
    def publisher(self) -> Publisher:
        with _FIRST_USE:
            if self._publisher is None:
                from chorale_client.publisher import Publisher

                self._publisher = Publisher(self._broker_url)
            return self._publisher

    def message(self, request_id: str) -> bytes:
        """The message for the script that accepts the request, which then pushes it; empty if the publisher has to send it."""
        return retrieve_message(request_id) if self._ledger_sends else b""

    def _connected(self, url: str, **options: Any) -> Redis:
        timeouts_s = {"socket_timeout": self._patience_s, "socket_connect_timeout": self._patience_s}
        client = Redis.from_url(
            url, max_connections=MOST_CONNECTIONS, **LOGIN_ALONE, **timeouts_s, **keep_alive(url), **options
        )
        share_context(client.connection_pool)
        follow_primary(client.connection_pool)
        enforce(self._limit, client)
        return client

    def retrieve(self, questions: Questions, **options: Unpack[RequestOptions]) -> Answer:
        """Ask and wait for the answer, at most `timeout_s`.

        `options` are the fields of `Request`.  Raises InvalidRequest (nothing was enqueued), RequestIdConflict,
        ServiceUnavailable.
        """
        return self.ask(make_request(questions, **options))

    def ask(self, request: Request, *, on_event: OnEvent | None = None) -> Answer:
        """Like `retrieve`, for a request of `make_request`; calls `on_event` with each of its events."""
        begun_s = time.monotonic()
        request = self._with_default_timeout(request)
        ends_at_s = begun_s + request.timeout_s + GRACE_S
        if on_event is not None:
            # The answer does not depend on its events: the request is sent again if it got lost.
            with suppress(ServiceUnavailable, UnknownRequest):
                if self.submit_request(request).state == "new":
                    for event in self.events(request.request_id, limit_s=request.timeout_s):
                        on_event(event)
        with self._limit.until(ends_at_s + FINISH_S):
            return read_answer(request.request_id, self._result_of(request, ends_at_s))

    def _result_of(self, request: Request, ends_at_s: float) -> bytes:
        """Accept the request, wait for its end, and end it after the wait.  Reconnects while there is time."""
        request_id, accepted, attempts = request.request_id, None, 0
        while True:
            attempts += 1
            try:
                with self._listening(request_id) as channel:
                    # A new primary may lack the request after a lost connection; a request that it knows stays as it is.
                    accepted = self._enqueue(request, ends_at_s - GRACE_S - time.monotonic())
                    if accepted.state == Status.REFUSED:
                        # If nobody read this announcement, it would end the next request with this id.
                        self._ledger.wait(channel, request_id, FINISH_S)
                    return (
                        accepted.result
                        or self._ledger.wait(channel, request_id, ends_at_s - time.monotonic())
                        or self._finish(request, accepted)
                    )
            except RedisError as error:
                is_transient = isinstance(error, TRANSIENT)
                if accepted is None and not (is_transient and attempts < ATTEMPTS_TO_ACCEPT):
                    raise unavailable(error) from error
                if not is_transient or time.monotonic() > ends_at_s:
                    raise unavailable(error, accepted=request_id if accepted else None) from error
                if accepted is not None:
                    time.sleep(RECONNECT_S)

    def _finish(self, request: Request, accepted: Accepted) -> bytes:
        """The result of a request whose end was not heard in time.  If the request has no end yet, this ends it."""
        if (result := self._ledger.result(request.request_id)) is not None:
            return result
        # Redis has just answered, so the only attempt gets all the time that is left.
        with self._limit.attempt(FINISH_S):
            return self._ledger.finish_failed(request, accepted.accepted_at_ms)

    def submit(self, questions: Questions, **options: Unpack[RequestOptions]) -> Handle:
        """Enqueue, and return a handle of the request at once.  Raises as `retrieve`."""
        return self.submit_request(make_request(questions, **options))

    def submit_request(self, request: Request) -> Handle:
        """Like `submit`, for a request of `make_request`.  The handle says whether the request is new."""
        request = self._with_default_timeout(request)
        with self._limit.until(time.monotonic() + self._patience_s), redis_errors_translated():
            return Handle(self, request.request_id, self._enqueue(request, replicas=self._replicas))

    def handle(self, request_id: str) -> Handle:
        """The handle of a request that was sent earlier, by any client."""
        return Handle(self, request_id)

    def send(self, questions: Questions, **options: Unpack[RequestOptions]) -> str:
        """Enqueue and return the request's id at once; `answer(id)` reads the answer later."""
        return self.submit(questions, **options).id

    def answer(self, request_id: str, *, wait_s: float = 0) -> Answer:
        """The answer of a request that was sent.

        Raises NotEnded if there is none after `wait_s` seconds, and UnknownRequest for an unknown id.
        """
        ends_at_s = time.monotonic() + wait_s
        with self._limit.until(ends_at_s + self._patience_s), redis_errors_translated():
            return read_answer(
                request_id,
                self._wait_for_result(request_id, ends_at_s) or self._ledger.run_exchange(end_of(request_id)),
            )

    def _wait_for_result(self, request_id: str, until_s: float) -> bytes | None:
        """The result, kept or announced; None after `until_s`.  A lost connection is bridged."""
        while True:
            try:
                with self._listening(request_id) as channel:
                    return self._ledger.result(request_id) or self._ledger.wait(
                        channel, request_id, until_s - time.monotonic()
                    )
            except TRANSIENT:
                if time.monotonic() > until_s:
                    raise
                time.sleep(RECONNECT_S)

    def events(self, request_id: str, *, after: str = "", limit_s: float = math.inf) -> Iterator[Event]:
        """The events of a request until its end, or for `limit_s`; `after` is the id of the last event that the caller has.

        Raises UnknownRequest, ServiceUnavailable.
        """
        progress, ends_at_s = Progress(request_id, after), time.monotonic() + limit_s
        while True:
            with self._limit.until(time.monotonic() + self._patience_s), redis_errors_translated():
                events = self._ledger.run_exchange(progress.poll())
            yield from events
            if progress.is_over or time.monotonic() > ends_at_s:
                return
            until_s = time.monotonic() + progress.pause_s()
            with self._limit.until(until_s + self._patience_s), redis_errors_translated():
                self._wait_for_result(request_id, until_s)

    def cancel(self, request_id: str) -> Answer:
        """End a request: its waiting callers get an answer without hits, with status `cancelled`.

        Returns the answer of the request.  A request that had ended before keeps its answer.  Raises UnknownRequest,
        ServiceUnavailable.
        """
        with self._limit.until(time.monotonic() + self._patience_s), redis_errors_translated():
            result = self._ledger.cancel(request_id)
        if result is None:
            raise UnknownRequest(request_id)
        return read_answer(request_id, result)

    def upsert(
        self,
        namespace: str,
        documents: Sequence[Mapping[str, Any] | WrittenDocument],
        *,
        source: str = "task",
        encoder: str | None = None,
        tenant: str | None = None,
    ) -> str:
        """Hand in documents, each `{"id", "title", "text", "metadata"}`; they replace documents with the same ids.  What
        `chorale_client.documents.write_document` made of a document is not dumped again.

        A document may have `markup`, `plain` or `markdown`; otherwise headings in its text decide.  Returns, when the
        broker has the documents, a ticket for `wait_visible`.  A few hundred documents make a good message.  The last
        `upsert` or `delete` of a document wins.  `encoder` names a declared encoder, for a namespace that is not there
        yet.  With a `tenant`, the ticket begins with `t.<tenant>.`

        Raises InvalidRequest; ServiceUnavailable: hand the documents in again, which does no harm if the broker took
        them; and its subclass QueueFull: too many documents wait for the index workers.
        """
        written = write_documents(documents)
        for number, document in enumerate(written, start=1):
            if document.fault is not None:
                raise InvalidRequest(f"documents: number {number}: {document.fault}")
        named = {} if encoder is None else {"encoder": encoder}
        return self._hand_in(TASK_INDEX, namespace, tenant, documents=written, source=source, **named)

    def delete(self, namespace: str, ids: Sequence[str], *, tenant: str | None = None) -> str:
        """Delete documents from every store.  Returns a ticket for `wait_visible`.

        Raises InvalidRequest, ServiceUnavailable, QueueFull.
        """
        return self._hand_in(TASK_DELETE, namespace, tenant, ids=checked_list("ids", ids, most=MAX_DELETED))

    def delete_namespace(self, namespace: str, *, tenant: str | None = None) -> str:
        """Delete a namespace with everything in it.  Returns a ticket for `wait_visible`.

        Raises InvalidRequest, ServiceUnavailable, QueueFull.
        """
        return self._hand_in(TASK_DELETE, namespace, tenant, whole_namespace=True)

    def namespaces(
        self, *, after: str = "", limit: int = 1_000, names: Collection[str] | None = None
    ) -> Sequence[Namespace]:
        """The first `limit` namespaces behind the name `after`, in the order of names; only those of `names` if it is given.

        `limit` is at most 1,001.  Whoever shows pages asks for one namespace more, which tells whether there is another page.
        Raises ServiceUnavailable.
        """
        page = {"after": after, "limit": limit, "names": None if names is None else [*names]}
        namespaces = ServiceCall(
            self._redis, "namespaces", socket_timeout_s=self._patience_s, **page
        ).result()
        return [Namespace.model_validate(namespace) for namespace in namespaces]

    def wait_visible(self, ticket: str, *, wait_s: float = 30) -> Indexed:
        """Wait until every store shows the documents or has refused them, and return the outcome, which is kept for an hour.

        Raises NotEnded after `wait_s` seconds, with the reason if a worker has tried.  Raises UnknownRequest for an
        unknown ticket: then hand in the documents as they are now, since the old ones may be outdated.
        """
        ends_at_s = time.monotonic() + wait_s
        with self._limit.until(ends_at_s + self._patience_s), redis_errors_translated():
            while True:
                is_last = time.monotonic() >= ends_at_s
                if (outcome := self._ledger.run_exchange(outcome_of(ticket, is_last=is_last))) is not None:
                    return outcome
                time.sleep(POLL_S)

    def _hand_in(self, task: str, namespace: str, tenant: str | None, **work: Any) -> str:
        try:
            check_namespace(namespace)
        except ValueError as error:
            raise InvalidRequest(str(error)) from None
        ticket = new_ticket(namespace, tenant)
        work |= {"namespace": namespace, "v": WIRE_VERSION}
        with self._limit.until(time.monotonic() + self._patience_s), redis_errors_translated():
            work["handed_in"] = stamp_of_message(self._redis, namespace, ticket)
        publisher = self.publisher
        from kombu.exceptions import KombuError

        try:
            publisher.hand_in(task, ticket, work)
        except QueueFull:
            forget_message(self._redis, namespace, ticket)
            raise
        except (TypeError, ValueError) as error:
            forget_message(self._redis, namespace, ticket)
            raise InvalidRequest(f"not JSON: {error}") from None
        except (KombuError, RedisError, OSError) as error:
            doubt_message(self._redis, namespace, ticket)
            raise ServiceUnavailable(f"the broker has not taken the documents: {error}") from error
        return ticket

    def has_workers(self) -> bool:
        """Whether a worker that fuses rankings was alive within the last ten seconds.  Raises ServiceUnavailable."""
        with self._limit.until(time.monotonic() + self._patience_s), redis_errors_translated():
            return self._ledger.run_exchange(has_workers())

    def _with_default_timeout(self, request: Request) -> Request:
        with self._limit.until(time.monotonic() + LOOKUP_S):
            return self._ledger.run_exchange(self._default_times.apply(request))

    def _enqueue(self, request: Request, within_s: float | None = None, *, replicas: int = 0) -> Accepted:
        message = self.message(request.request_id)
        accepted = self._ledger.accept(request, within_s=within_s, message=message, replicas=replicas)
        if accepted.is_new and not message:
            # If this message cannot be published, the sweeper sends another one soon.
            self.publisher.send(request.request_id, within_s=request.timeout_s)
        return accepted

    def close(self) -> None:
        """Wait until the messages are sent, and close this thread's connections.  Other threads close theirs when they end."""
        if self._publisher is not None:
            self._publisher.close()
        self._local.__dict__.clear()
        self._subscribing.close()
        self._redis.close()

    # Each thread keeps one subscription connection: a new one for each request would cost more than the request.  A
    # child process opens its own: two processes that read one socket get parts of each other's answers.
    @contextmanager
    def _listening(self, request_id: str) -> Iterator[PubSub]:
        channel = cast("PubSub | None", getattr(self._local, "channel", None))
        is_new = channel is None or self._local.pid != os.getpid()
        if channel is None or is_new:
            channel = self._local.channel = self._subscribing.pubsub()
            self._local.pid = os.getpid()
        try:
            channel.subscribe(result_key(request_id))
            if is_new:
                # Another connection for commands, so that this time is spent before the request is accepted.
                self._redis.ping()
            yield channel
        except RedisError:
            self._local.__dict__.clear()
            # The error refers to the connection, which would stay subscribed for as long as somebody keeps the error.
            channel.close()
            raise
        finally:
            with suppress(RedisError):
                if "channel" in self._local.__dict__:
                    channel.unsubscribe(result_key(request_id))


class RequestHandle:
    """A request that was sent: its id, and how the ledger accepted it."""

    def __init__(self, request_id: str, accepted: Accepted | None = None) -> None:
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


class Handle(RequestHandle):
    """A request of `Chorale`."""

    def __init__(self, client: Chorale, request_id: str, accepted: Accepted | None = None) -> None:
        super().__init__(request_id, accepted)
        self._client = client

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
