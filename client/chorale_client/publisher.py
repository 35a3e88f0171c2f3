"""Sends `chorale.retrieve` for accepted requests.

If the broker is the ledger's Redis, the script that accepts a request pushes its message too.  For any other broker a
thread sends it: no caller waits for the broker.

Documents are not in the ledger, so the caller's own thread hands them in.
"""

from __future__ import annotations

import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any
from uuid import uuid4

from celery import Celery
from kombu.exceptions import ChannelError, KombuError
from kombu.exceptions import ConnectionError as AMQPConnectionError
from redis.exceptions import RedisError

from chorale_client.confirmed import send_confirmed
from chorale_client.memory_guard import check_memory
from chorale_client.message_template import WITHOUT_ARGUMENTS, Template
from chorale_client.redis_urls import broker_tls, celery_url
from chorale_client.wire_names import QUEUE_INDEX, QUEUE_RETRIEVE, TASK_RETRIEVE

log = logging.getLogger(__name__)

BROKER_ERRORS = (KombuError, RedisError, OSError, AMQPConnectionError, ChannelError)
"""Errors of sending when the broker is away or refuses us."""


class Publisher:
    """Thread-safe.  A process that exits waits until its messages are sent."""

    def __init__(self, broker_url: str | None, redis_url: str) -> None:
        self._is_ledgers = broker_url in (None, redis_url) and celery_url(redis_url).startswith("redis")
        broker_url = broker_url or redis_url
        self._app = _sending_app(broker_url)
        self._is_redis = celery_url(broker_url).startswith("redis")
        self._thread = _new_thread()
        self._pid = os.getpid()

    def message(self, request_id: str) -> bytes:
        """The message for the script that accepts the request, which then pushes it; empty if `send` has to send it."""
        template = _template() if self._is_ledgers else None
        if template is None:
            return b""
        task_id = str(uuid4())
        return template.render(task_id, {"request_id": request_id}, root_id=task_id)

    def send(self, request_id: str, *, within_s: float) -> None:
        """Publish soon, but not after `within_s`: by then the sweeper has sent the message."""
        if self._pid != os.getpid():
            # A thread does not survive a fork.
            self._thread, self._pid = _new_thread(), os.getpid()
        self._thread.submit(self._send, request_id, time.monotonic() + within_s)

    def hand_in(self, task: str, ticket: str, work: dict[str, Any]) -> None:
        """Send work to the index workers and return when the broker has it.  The ticket is the task's id.

        Raises NoRoom if the documents would fill a Redis broker (RabbitMQ limits itself); KombuError, RedisError, OSError.
        """
        if self._is_redis:
            with self._app.producer_or_acquire() as producer:
                check_memory(producer.channel.client, QUEUE_INDEX, work)
        send_confirmed(self._app, task, kwargs=work, task_id=ticket, queue=QUEUE_INDEX, **WITHOUT_ARGUMENTS)

    def close(self) -> None:
        """Wait until the messages are sent, and close the connections."""
        self._thread.shutdown()
        self._app.close()

    def _send(self, request_id: str, until_s: float) -> None:
        if time.monotonic() > until_s:
            return
        try:
            named = {"request_id": request_id}
            self._app.send_task(TASK_RETRIEVE, kwargs=named, queue=QUEUE_RETRIEVE, **WITHOUT_ARGUMENTS)
        except BROKER_ERRORS as error:
            log.warning("not published, the sweeper will send it: %s: %s", request_id, error)


def _new_thread() -> ThreadPoolExecutor:
    # One thread keeps the messages in order.
    return ThreadPoolExecutor(1, thread_name_prefix="chorale-publisher")


@lru_cache
def _template() -> Template | None:
    """None if this version of Celery or kombu cannot render a message ahead of time."""
    try:
        return Template(_sending_app("memory://"), TASK_RETRIEVE, QUEUE_RETRIEVE)
    except Exception as error:
        log.warning("messages are sent one by one: %s: %s", type(error).__name__, error)
        return None


def _sending_app(broker_url: str) -> Celery:
    app = Celery("chorale-client", broker=celery_url(broker_url), set_as_current=False)
    app.conf.update(
        broker_use_ssl=broker_tls(broker_url),
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_publish_retry=False,
        broker_transport_options={"priority_steps": [0], "socket_timeout": 2, "socket_connect_timeout": 2},
    )
    return app
