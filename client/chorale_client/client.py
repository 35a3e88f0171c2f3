"""The thin client: one line for the simple case, the same ledger as everybody for the rest."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from celery import Celery
from kombu.exceptions import KombuError
from pydantic import ValidationError
from pydantic_core import from_json
from redis import Redis
from redis.client import PubSub
from redis.exceptions import RedisError

from chorale_client.answer import Answer
from chorale_client.errors import InvalidRequest, NotEnded, ServiceUnavailable
from chorale_client.keys import result_key
from chorale_client.ledger import GRACE_S, Accepted, CallersLedger
from chorale_client.redis_urls import celery_url
from chorale_client.request import Question, Request, refuse_unfinished
from chorale_client.words import QUEUE_RETRIEVE, TASK_RETRIEVE

Questions = str | Question | Mapping[str, Any] | Sequence[str | Question | Mapping[str, Any]]


def make_request(questions: Questions, **options: Any) -> Request:
    """A checked request from one question or several; raises InvalidRequest naming the field."""
    several = questions if isinstance(questions, Sequence) and not isinstance(questions, str) else [questions]
    try:
        request = Request(questions=several, **options)
        refuse_unfinished(request)
    except ValidationError as error:
        raise InvalidRequest.from_validation(error) from None
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
    return request


class Chorale:
    """Sends questions to a running pipeline and reads answers.

    `redis_url` is the Redis of the pipeline; `broker_url` Celery's broker where that is another server.  Threads may
    share one client; each waits on a connection of its own.
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
            redis_url, socket_timeout=socket_timeout_s, socket_connect_timeout=socket_timeout_s
        )
        self._ledger = CallersLedger(self._redis, answer_ttl_s=answer_ttl_s)
        self._app = _sending_app(broker_url or redis_url)
        self._local = threading.local()

    def retrieve(self, questions: Questions, **options: Any) -> Answer:
        """Ask and wait for the answer, which comes within `timeout_s`.

        `options` are the fields of `Request`.  Raises InvalidRequest (nothing was enqueued), RequestIdConflict,
        ServiceUnavailable.
        """
        return self.ask(make_request(questions, **options))

    def ask(self, request: Request) -> Answer:
        """Like `retrieve`, for a request that was made before."""
        until = time.monotonic() + request.timeout_s + GRACE_S
        try:
            channel = self._listen(request.request_id)
            try:
                accepted = self._enqueue(request)
                result = accepted.result or self._ledger.wait(
                    channel, request.request_id, until - time.monotonic()
                )
                if result is None:
                    result = self._ledger.result(request.request_id)
                if result is None:
                    result = self._ledger.finish_failed(request, accepted.accepted_at_ms)
            finally:
                self._unlisten(channel, request.request_id)
        except RedisError as error:
            self._local.__dict__.clear()
            raise ServiceUnavailable(f"Redis does not answer: {error}") from error
        return read_answer(result)

    def send(self, questions: Questions, **options: Any) -> str:
        """Enqueue and return the request's id at once; `answer(id)` reads the answer later."""
        request = make_request(questions, **options)
        try:
            return self._enqueue(request).request_id
        except RedisError as error:
            raise ServiceUnavailable(f"Redis does not answer: {error}") from error

    def answer(self, request_id: str, *, wait_s: float = 0) -> Answer:
        """The answer of a request that was sent; raises NotEnded where it has none after `wait_s` seconds."""
        try:
            channel = self._listen(request_id)
            try:
                result = self._ledger.result(request_id) or self._ledger.wait(channel, request_id, wait_s)
            finally:
                self._unlisten(channel, request_id)
        except RedisError as error:
            self._local.__dict__.clear()
            raise ServiceUnavailable(f"Redis does not answer: {error}") from error
        if result is None:
            state = self._ledger.state(request_id)
            raise NotEnded(
                f"{request_id} is {state}; ask again" if state else f"nothing is known of {request_id!r}"
            )
        return read_answer(result)

    def _enqueue(self, request: Request) -> Accepted:
        accepted = self._ledger.accept(request)
        if accepted.is_new:
            # It is accepted: what cannot be published now, the sweeper sends in a moment.
            with suppress(KombuError, RedisError, OSError):
                self._app.send_task(
                    TASK_RETRIEVE,
                    kwargs={"request_id": request.request_id},
                    queue=QUEUE_RETRIEVE,
                    ignore_result=True,
                    argsrepr="()",
                    kwargsrepr="{}",
                )
        return accepted

    # One subscription connection a thread: making a new one for each request would cost more than the request.
    def _listen(self, request_id: str) -> PubSub:
        channel = cast("PubSub | None", getattr(self._local, "channel", None))
        if channel is None:
            channel = self._local.channel = self._redis.pubsub(ignore_subscribe_messages=True)
        channel.subscribe(result_key(request_id))
        return channel

    def _unlisten(self, channel: PubSub, request_id: str) -> None:
        try:
            channel.unsubscribe(result_key(request_id))
        except RedisError:
            self._local.__dict__.clear()


def read_answer(result: bytes) -> Answer:
    """The answer in a Celery result document."""
    return Answer.model_validate(from_json(result)["result"])


def _sending_app(broker_url: str) -> Celery:
    app = Celery("chorale-client", broker=celery_url(broker_url), set_as_current=False)
    app.conf.update(
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_publish_retry=False,
        broker_transport_options={"priority_steps": [0], "socket_timeout": 2, "socket_connect_timeout": 2},
    )
    return app
