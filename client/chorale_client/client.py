"""The thin client: `Chorale` sends questions and documents to a running pipeline."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Unpack, cast

from kombu.exceptions import EncodeError, KombuError
from pydantic import ValidationError
from pydantic_core import from_json
from redis import Redis
from redis.client import PubSub
from redis.exceptions import ConnectionError, RedisError, ResponseError, TimeoutError

from chorale_client.answer import Answer
from chorale_client.default_time import DefaultTimes
from chorale_client.documents import checked_documents, checked_list
from chorale_client.errors import InvalidRequest, NoRoom, NotEnded, ServiceUnavailable, UnknownRequest
from chorale_client.handed_in import doubt_message, forget_message, namespace_of, new_ticket, stamp_of_message
from chorale_client.indexed import Indexed
from chorale_client.keys import INDEXED, NOT_DONE, result_key, waiting_key
from chorale_client.ledger import GRACE_S, Accepted, CallersLedger, status_in_flight
from chorale_client.publisher import Publisher
from chorale_client.request import Question, Request, check_namespace, refuse_unfinished
from chorale_client.request_options import RequestOptions
from chorale_client.scripts import own_connection
from chorale_client.time_limit import TimeLimit, keep_to
from chorale_client.words import TASK_DELETE, TASK_INDEX, WIRE_VERSION

ATTEMPTS_TO_ACCEPT = 2
"""The first attempt may use a connection that a restarted server has closed."""
RECONNECT_S = 0.05
"""Pause between attempts to reconnect for an accepted request."""
LAST_WORD_S = 0.3
"""Time to end a request after the wait for it is over; then the caller gets ServiceUnavailable."""

LOOK_AGAIN_S = 0.05
"""Pause between two checks whether documents are indexed."""

MOST_CONNECTIONS = 2**31
"""Each thread that plans or waits has its own connections; the pool's default limit of 100 would refuse further threads."""
LOOKUP_S = 0.3
"""Maximum time to ask for the installation's time limit, for a request that has none."""

_UNKNOWN_TICKET = "it was never handed in here, was lost, or ended more than an hour ago; hand in the documents as they are now"

_PASSING = (ConnectionError, TimeoutError)

Questions = str | Question | Mapping[str, Any] | Sequence[str | Question | Mapping[str, Any]]


def make_request(questions: Questions, **options: Unpack[RequestOptions]) -> Request:
    """A checked request from one question or several.  Raises InvalidRequest, which names the field."""
    several = questions if isinstance(questions, Sequence) and not isinstance(questions, str) else [questions]
    try:
        request = Request(questions=several, **options)
        refuse_unfinished(request)
        request.model_dump_json()  # a filter may hold what JSON cannot
    except ValidationError as error:
        raise InvalidRequest.from_validation(error) from None
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
    return request


class Chorale:
    """Sends questions to a running pipeline and reads answers.

    `redis_url` is the Redis of the pipeline; `broker_url` is Celery's broker, if that is another server.  Threads may
    share one client; each thread waits on its own connection.
    """

    def __init__(
        self,
        redis_url: str = "redis://localhost:6379/0",
        *,
        broker_url: str | None = None,
        answer_ttl_s: float = 600,
        socket_timeout_s: float = 2,
    ) -> None:
        self._redis = Redis.from_url(
            redis_url,
            socket_timeout=socket_timeout_s,
            socket_connect_timeout=socket_timeout_s,
            max_connections=MOST_CONNECTIONS,
        )
        self._patience_s = socket_timeout_s
        self._limit = TimeLimit()
        keep_to(self._limit, self._redis)
        self._ledger = CallersLedger(self._redis, answer_ttl_s=answer_ttl_s)
        self._default_times = DefaultTimes(self._redis)
        self._publisher = Publisher(broker_url or redis_url)
        self._local = threading.local()

    def retrieve(self, questions: Questions, **options: Unpack[RequestOptions]) -> Answer:
        """Ask and wait for the answer, at most `timeout_s`.

        `options` are the fields of `Request`.  Raises InvalidRequest (nothing was enqueued), RequestIdConflict,
        ServiceUnavailable.
        """
        return self.ask(make_request(questions, **options))

    def ask(self, request: Request) -> Answer:
        """Like `retrieve`, for a request of `make_request`."""
        begun_s = time.monotonic()
        request = self._in_its_time(request)
        ends_at_s = begun_s + request.timeout_s + GRACE_S
        with self._limit.until(ends_at_s + LAST_WORD_S):
            return read_answer(self._result_of(request, ends_at_s))

    def _result_of(self, request: Request, ends_at_s: float) -> bytes:
        """Accept the request, wait for its end, and end it after the wait.  Reconnects while there is time."""
        request_id, accepted, attempts = request.request_id, None, 0
        while True:
            attempts += 1
            try:
                with self._listening(request_id) as channel:
                    if accepted is None:
                        accepted = self._enqueue(request, ends_at_s - GRACE_S - time.monotonic())
                        result = accepted.result
                    else:
                        result = self._ledger.result(request_id)
                    return (
                        result
                        or self._ledger.wait(channel, request_id, ends_at_s - time.monotonic())
                        or self._ledger.result(request_id)
                        or self._ledger.finish_failed(request, accepted.accepted_at_ms)
                    )
            except RedisError as error:
                can_pass = isinstance(error, _PASSING)
                if accepted is None and not (can_pass and attempts < ATTEMPTS_TO_ACCEPT):
                    raise _unavailable(error) from error
                if not can_pass or time.monotonic() > ends_at_s:
                    raise _unavailable(error, accepted=request_id if accepted else None) from error
                if accepted is not None:
                    time.sleep(RECONNECT_S)

    def send(self, questions: Questions, **options: Unpack[RequestOptions]) -> str:
        """Enqueue and return the request's id at once; `answer(id)` reads the answer later."""
        request = self._in_its_time(make_request(questions, **options))
        with self._limit.until(time.monotonic() + self._patience_s), _said_as_ours():
            return self._enqueue(request).request_id

    def answer(self, request_id: str, *, wait_s: float = 0) -> Answer:
        """The answer of a request that was sent.

        Raises NotEnded if there is none after `wait_s` seconds, and UnknownRequest for an unknown id.
        """
        ends_at_s = time.monotonic() + wait_s
        with self._limit.until(ends_at_s + self._patience_s), _said_as_ours():
            while True:
                try:
                    with self._listening(request_id) as channel:
                        result = self._ledger.result(request_id) or self._ledger.wait(
                            channel, request_id, ends_at_s - time.monotonic()
                        )
                    break
                except _PASSING:
                    if time.monotonic() > ends_at_s:
                        raise
                    time.sleep(RECONNECT_S)
            state = None if result is not None else self._ledger.state(request_id)
            if result is None and state is None:
                # The request may have ended between the two reads.
                result = self._ledger.result(request_id)
        if result is not None:
            return read_answer(result)
        if state is None:
            raise UnknownRequest(request_id)
        raise NotEnded(f"{request_id} is {status_in_flight(state)}; ask again")

    def cancel(self, request_id: str) -> Answer:
        """End a request: its waiting callers get an answer without hits, with status `cancelled`.

        Returns the answer of the request.  A request that had ended before keeps its answer.  Raises UnknownRequest,
        ServiceUnavailable.
        """
        with self._limit.until(time.monotonic() + self._patience_s), _said_as_ours():
            result = self._ledger.cancel(request_id)
        if result is None:
            raise UnknownRequest(request_id)
        return read_answer(result)

    def upsert(self, namespace: str, documents: Sequence[Mapping[str, Any]], *, source: str = "task") -> str:
        """Hand in documents, each `{"id", "title", "text", "metadata"}`; they replace documents with the same ids.

        A document may have `markup`, `plain` or `markdown`; otherwise headings in its text decide.  Returns, when the
        broker has the documents, a ticket for `wait_visible`.  A few hundred documents make a good message.  The last
        `upsert` or `delete` of a document wins.

        Raises InvalidRequest; ServiceUnavailable: hand the documents in again, which does no harm if the broker took
        them; and its subclass NoRoom: too many documents wait for the index workers.
        """
        return self._hand_in(TASK_INDEX, namespace, documents=checked_documents(documents), source=source)

    def delete(self, namespace: str, ids: Sequence[str]) -> str:
        """Delete documents from every store.  Returns a ticket for `wait_visible`.

        Raises InvalidRequest, ServiceUnavailable, NoRoom.
        """
        return self._hand_in(TASK_DELETE, namespace, ids=checked_list("ids", ids))

    def wait_visible(self, ticket: str, *, wait_s: float = 30) -> Indexed:
        """Wait until every store shows the documents or has refused them, and return the outcome, which is kept for an hour.

        Raises NotEnded after `wait_s` seconds, with the reason if a worker has tried.  Raises UnknownRequest for an
        unknown ticket: then hand in the documents as they are now, since the old ones may be outdated.
        """
        ends_at_s = time.monotonic() + wait_s
        with self._limit.until(ends_at_s + self._patience_s), _said_as_ours():
            while (told := self._redis.get(INDEXED + ticket)) is None and time.monotonic() < ends_at_s:
                time.sleep(LOOK_AGAIN_S)
            if told is None:
                told = self._last_look(ticket)
        return Indexed.from_wire(from_json(cast("bytes", told)))

    def _last_look(self, ticket: str) -> bytes:
        namespace = namespace_of(ticket)
        with self._redis.pipeline(transaction=False) as trip:
            trip.zscore(NOT_DONE + namespace, ticket)
            trip.get(waiting_key(ticket))
            # Read last: a message that ended meanwhile has its outcome by now.
            trip.get(INDEXED + ticket)
            handed_in, waiting, told = trip.execute()
        if told is not None:
            return cast("bytes", told)
        # A ticket of another program names no namespace, so it cannot be looked up.
        if namespace and handed_in is None and waiting is None:
            raise UnknownRequest(ticket, _UNKNOWN_TICKET)
        why = f": {from_json(waiting)['waiting']}" if waiting is not None else ""
        raise NotEnded(f"{ticket} is not indexed yet{why}; ask again")

    def _hand_in(self, task: str, namespace: str, **work: Any) -> str:
        try:
            check_namespace(namespace)
        except ValueError as error:
            raise InvalidRequest(str(error)) from None
        ticket = new_ticket(namespace)
        work |= {"namespace": namespace, "v": WIRE_VERSION}
        with self._limit.until(time.monotonic() + self._patience_s), _said_as_ours():
            work["handed_in"] = stamp_of_message(self._redis, namespace, ticket)
        try:
            self._publisher.hand_in(task, ticket, work)
        except NoRoom:
            forget_message(self._redis, namespace, ticket)
            raise
        except (EncodeError, TypeError, ValueError) as error:
            forget_message(self._redis, namespace, ticket)
            raise InvalidRequest(f"documents are JSON values: {error}") from None
        except (KombuError, RedisError, OSError) as error:
            doubt_message(self._redis, namespace, ticket)
            raise ServiceUnavailable(f"the broker has not taken the documents: {error}") from error
        return ticket

    def _in_its_time(self, request: Request) -> Request:
        with self._limit.until(time.monotonic() + LOOKUP_S):
            return self._default_times.applied(request)

    def _enqueue(self, request: Request, within_s: float | None = None) -> Accepted:
        accepted = self._ledger.accept(request, within_s=within_s)
        if accepted.is_new:
            # If this message cannot be published, the sweeper sends another one soon.
            self._publisher.send(request.request_id, within_s=request.timeout_s)
        return accepted

    # Each thread keeps one subscription connection: a new one for each request would cost more than the request.  A
    # child process opens its own: two processes that read one socket get parts of each other's answers.
    @contextmanager
    def _listening(self, request_id: str) -> Iterator[PubSub]:
        channel = cast("PubSub | None", getattr(self._local, "channel", None))
        is_new = channel is None or self._local.pid != os.getpid()
        if channel is None or is_new:
            channel = self._local.channel = self._redis.pubsub(ignore_subscribe_messages=True)
            self._local.pid = os.getpid()
        try:
            channel.subscribe(result_key(request_id))
            if is_new:
                # Connects for scripts too, so that this time is spent before the request is accepted.
                own_connection(self._redis)
            yield channel
        except RedisError:
            self._local.__dict__.clear()
            raise
        finally:
            with suppress(RedisError):
                if "channel" in self._local.__dict__:
                    channel.unsubscribe(result_key(request_id))


@contextmanager
def _said_as_ours() -> Iterator[None]:
    try:
        yield
    except RedisError as error:
        raise _unavailable(error) from error


def _unavailable(error: RedisError, *, accepted: str | None = None) -> ServiceUnavailable:
    what = "Redis refuses" if isinstance(error, ResponseError) else "Redis does not answer"
    later = f"; {accepted} was accepted, its answer can be asked for later" if accepted else ""
    return ServiceUnavailable(f"{what}: {error}{later}")


def read_answer(result: bytes) -> Answer:
    """The answer in a Celery result document."""
    return Answer.model_validate(from_json(result)["result"])
