"""Publishes by Celery the messages that no script of the ledger pushes.

A thread sends `chorale.retrieve` for accepted requests, if the broker is another one than the ledger's Redis: no caller waits for
the broker.  Documents are not in the ledger, so the caller's own thread hands them in.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from celery import Celery
from kombu import Connection, Producer
from kombu.exceptions import ChannelError, KombuError, OperationalError
from kombu.exceptions import ConnectionError as AMQPConnectionError
from redis.exceptions import RedisError

from chorale_client.connections import idle
from chorale_client.connections.urls import broker_tls, celery_url
from chorale_client.documents import WrittenDocument, check_memory, to_json
from chorale_client.retrieve_message import WITHOUT_ARGUMENTS
from chorale_client.wire_names import QUEUE_INDEX, QUEUE_RETRIEVE, TASK_RETRIEVE

log = logging.getLogger(__name__)

BYTES_A_BYTE = 3
"""Bytes of memory for one byte of JSON: a message is base64, and Redis holds it twice while it is written."""
BROKER_ERRORS = (KombuError, RedisError, OSError, AMQPConnectionError, ChannelError)
"""Errors of sending when the broker is away or refuses us."""


class Publisher:
    """Thread-safe.  A process that exits waits until its messages are sent."""

    _connection: Connection | None = None

    def __init__(self, broker_url: str) -> None:
        self._app = _sending_app(broker_url)
        # Celery and kombu import these when they are first asked for them, perhaps while another thread forks.
        _ = self._app.amqp, self._app.connection_for_write().get_transport_cls()
        self._is_redis = celery_url(broker_url).startswith("redis")
        self._thread = _new_thread()
        self._socket: Any = None
        self._sent_at_s = 0.0
        self._pid = os.getpid()

    def send(self, request_id: str, *, within_s: float) -> None:
        """Publish soon, but not after `within_s`: by then the sweeper has sent the message."""
        if self._pid != os.getpid():
            # A thread does not survive a fork, and a connection is its process's own.
            self._thread, self._connection, self._pid = _new_thread(), None, os.getpid()
        self._thread.submit(self._send, request_id, time.monotonic() + within_s)

    def hand_in(self, task: str, ticket: str, work: dict[str, Any]) -> None:
        """Send work to the index workers and return when the broker has it.  The ticket is the task's id; `documents` of the
        work are a list of WrittenDocument.

        Raises QueueFull if the documents would fill a Redis broker (RabbitMQ limits itself); TypeError, ValueError for
        work that is no JSON; KombuError, RedisError, OSError.
        """
        message = self._app.amqp.create_task_message(ticket, task, **WITHOUT_ARGUMENTS)
        fields = [
            b"%b: %b" % (to_json(name), _list(value) if name == "documents" else to_json(value))
            for name, value in work.items()
        ]
        body = b"[[], {%b}, %b]" % (b", ".join(fields), to_json(message.body[2]))
        message = message._replace(body=body)
        written = {"queue": QUEUE_INDEX, "content_type": "application/json", "content_encoding": "utf-8"}
        send = partial(self._app.amqp.send_task_message, name=task, message=message, **written)
        if not self._is_redis:
            _confirmed(self._app, send)
            return
        # A pooled connection may be dead.
        with self._app.connection_for_write() as connection:
            producer, size = connection.Producer(), BYTES_A_BYTE * len(body)
            check_memory(
                producer.channel.client, QUEUE_INDEX, size, items="documents", consumers="index workers"
            )
            send(producer)

    def close(self) -> None:
        """Wait until the messages are sent, and close the connections."""
        self._thread.shutdown()
        self._drop_connection()
        self._app.close()

    def __del__(self) -> None:
        # Nobody has closed this client.  After a fork the socket belongs to the parent process.
        if self._connection is not None and self._pid == os.getpid():
            self._connection.collect()

    def _send(self, request_id: str, until_s: float) -> None:
        if time.monotonic() > until_s:
            return
        try:
            producer = self._open_connection().Producer()
            message = {"kwargs": {"request_id": request_id}, "queue": QUEUE_RETRIEVE, **WITHOUT_ARGUMENTS}
            self._app.send_task(TASK_RETRIEVE, producer=producer, **message)
            self._sent_at_s = idle.now_s()
        except BROKER_ERRORS as error:
            self._drop_connection()
            log.warning("not published, the sweeper will send it: %s: %s", request_id, error)

    def _open_connection(self) -> Connection:
        """RabbitMQ does not reply to a message, so a dead idle connection would go unnoticed.  A new connection costs 3 ms."""
        if idle.now_s() - self._sent_at_s > idle.IDLE_S:
            self._drop_connection()
        if self._connection is None:
            connection = self._app.connection_for_write()
            connection.ensure_connection(max_retries=len(connection.alt), interval_start=0)
            self._connection = connection
            is_amqp = connection.transport.driver_type == "amqp"
            self._socket = connection.connection.transport.sock if is_amqp else None
        return self._connection

    def _drop_connection(self) -> None:
        if self._connection is not None:
            with suppress(*BROKER_ERRORS):
                if self._socket is not None:
                    # AMQP's closing handshake might never be answered.
                    self._socket.settimeout(idle.ANSWERS_WITHIN_S)
                self._connection.release()
        self._connection = None


def _new_thread() -> ThreadPoolExecutor:
    # One thread keeps the messages in order.
    return ThreadPoolExecutor(1, thread_name_prefix="chorale-publisher")


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


ANSWERS_WITHIN_S = 5.0
"""Timeout of each answer of RabbitMQ."""


def send_confirmed(app: Celery, task: str, **message: Any) -> None:
    """Like `app.send_task`, but returns when the broker has the message.  Raises KombuError, RedisError, OSError; the
    broker may have the message even then.

    For RabbitMQ each message opens a connection, which costs 3 ms: a pooled connection may be dead, and a late
    confirmation on it would confirm the next message.
    """
    _confirmed(app, lambda producer: app.send_task(task, producer=producer, **message))


def _confirmed(app: Celery, send: Callable[[Producer], object]) -> None:
    with app.connection_for_write(transport_options={"confirm_publish": True}) as connection:
        if connection.transport.driver_type != "amqp":
            # Redis has the message when it answers the command.
            with app.producer_or_acquire() as producer:
                send(producer)
            return
        try:
            connection.ensure_connection(max_retries=len(connection.alt), interval_start=0)
            # Set on the socket, since py-amqp's own `read_timeout` does not limit this wait.
            connection.connection.transport.sock.settimeout(ANSWERS_WITHIN_S)
            send(connection.Producer())
        except Exception as error:
            # `collect` closes without AMQP's closing handshake, which might never be answered.
            connection.collect()
            if isinstance(error, (*connection.connection_errors, *connection.channel_errors)):
                raise OperationalError(str(error)) from error
            raise


def _list(documents: Iterable[WrittenDocument]) -> bytes:
    return b"[%b]" % b", ".join(document.json for document in documents)
