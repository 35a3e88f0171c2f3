"""A worker takes its messages without delay, and an unreadable message never ends the worker.

Celery drops a message whose body it cannot decode, and writes the whole message to the log.  Other faults end the worker,
or come back for ever after it reconnects: text that is no JSON or nested too deep, no object, no headers, a task name or
an id of a wrong type, a task that raises SystemExit in a solo pool.  Here all of these are dropped, and logged without
their texts.  If the message names a part of a request, that part has failed; a message of `chorale.retrieve` whose id can
be read has a failed answer.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from queue import Empty
from types import SimpleNamespace
from typing import Any

from celery.app import amqp
from celery.exceptions import InvalidTaskError, NotRegistered, WorkerLostError
from celery.worker.consumer import Consumer as CeleryConsumer
from celery.worker.state import maybe_shutdown
from chorale_client.connections.failover import follow_primary
from chorale_client.keys import READY
from chorale_client.wire_names import QUEUE_INDEX, QUEUE_RETRIEVE, TASK_DELETE, TASK_INDEX, TASK_RETRIEVE
from kombu import Connection as KombuConnection
from kombu.exceptions import ContentDisallowed
from kombu.transport import redis
from redis.exceptions import OutOfMemoryError, ResponseError
from structlog import get_logger

from config.redis_client import is_transient
from tasks.celery_internals.batch_consumer import BatchConsumer
from tasks.celery_internals.result_backend import PART_SEPARATOR, id_of_task
from tasks.celery_internals.visibility import QoS

log = get_logger("chorale.intake")


STEP_S, LONGEST_S = 0.1, 1.0
"""Each wait between attempts is longer than the last by STEP_S.  A worker that is told to stop meanwhile stops."""


CALLERS = {QUEUE_RETRIEVE: (TASK_RETRIEVE,), QUEUE_INDEX: (TASK_INDEX, TASK_DELETE)}
"""The only tasks that a worker takes from the queues to which callers' logins can write."""

TEXTS_IN_HEADERS = ("argsrepr", "kwargsrepr")
"""Celery repeats the arguments in these headers, and logs them with a failure."""

ROUNDS = 1_000
"""Maximum rounds of ready callbacks to run before the event loop checks its timers."""


def _drop(where: str, error: BaseException) -> None:
    log.error("message dropped", where=where, error=f"{type(error).__name__}: {error}"[:200])


def _is_callers(message: Any, tasks: Sequence[str]) -> bool:
    """Whether the message is of one of these tasks.  A message with the id of a part gets another id, because its failure
    would count as a failure of the part's branch."""
    headers = message.get("headers") if isinstance(message, dict) else None
    if not isinstance(headers, dict):
        return False
    if "task" not in headers:
        return True  # of protocol 1, which `Consumer` refuses
    if headers["task"] not in tasks:
        return False
    if TASK_RETRIEVE in tasks and PART_SEPARATOR in str(headers.get("id")):
        headers["id"] = id_of_task(str(headers["id"]))
    return True


def _task_and_id(message: Any) -> tuple[object, object]:
    """The task's name and id from the headers, or from a JSON body of Celery's protocol 1; None where there is none."""
    fields = message.headers
    if isinstance(fields, Mapping) and "task" not in fields:
        with suppress(Exception):  # kombu raises many kinds; it refuses to read all but JSON
            fields = message.decode()
    return (fields.get("task"), fields.get("id")) if isinstance(fields, Mapping) else (None, None)


def _lost(connection_errors: tuple[type[BaseException], ...]) -> tuple[type[BaseException], ...]:
    """kombu counts a KeyError as a lost connection; here it means a missing field of a message."""
    return tuple(kind for kind in connection_errors if kind is not KeyError)


def _cause(error: Exception) -> BaseException:
    """The solo pool wraps the loss of a task in an error that the task's request cannot read."""
    return error.__context__ if isinstance(error.__context__, WorkerLostError) else error


class Consumer(CeleryConsumer):  # type: ignore[misc]  # Celery has no type hints
    """The setting `worker_consumer` names this class."""

    def ensure_connected(self, conn: Any) -> Any:
        """Reconnect within a moment after the broker has returned, and takes writes.

        Celery waits two seconds after its first failed attempt, then four, then six: longer than a request lives.  If
        RabbitMQ refuses the login, it ends with a traceback.
        """
        errors: list[str] = []
        wait_s = 0.0

        def send_due(error: Exception, _interval_s: float) -> None:
            if isinstance(error, ResponseError) and not is_transient(error):
                raise error
            if not errors:
                errors.append(str(error))
                log.warning("broker unreachable", broker=conn.as_uri(), error=errors[0][:200])

        while True:
            try:
                conn.ensure_connection(
                    send_due,
                    interval_start=STEP_S,
                    interval_step=STEP_S,
                    interval_max=LONGEST_S,
                    callback=maybe_shutdown,
                )
                if isinstance(conn.transport, Transport):
                    # A replica accepts connections, but refuses the declaration of queues.
                    for queue in self.app.amqp.queues.consume_from.values():
                        queue(conn.default_channel).declare()
                break
            except (*conn.connection_errors, *conn.channel_errors) as error:
                # kombu does not try again after a refused login or virtual host.  A new connection may lead to another server.
                conn.close()
                wait_s = min(wait_s + STEP_S, LONGEST_S)
                send_due(error, wait_s)
                maybe_shutdown()
                time.sleep(wait_s)
        if errors:
            log.info("broker answers again")
        return super().ensure_connected(conn)

    def on_connection_error_before_connected(self, exc: Exception) -> None:
        self._raise_if_lasting(exc)
        super().on_connection_error_before_connected(exc)

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        self._raise_if_lasting(exc)
        super().on_connection_error_after_connected(exc)

    def _raise_if_lasting(self, error: Exception) -> None:
        """End the worker for a refusal that waiting does not heal, such as a missing permission."""
        if isinstance(error, self.channel_errors) and not is_transient(error):
            raise error

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Any:
        handle = super().create_task_handler(*args, **kwargs)
        lost = _lost((*self.connection_errors, *self.channel_errors))
        if hasattr(self.hub, "_pop_ready"):
            self.hub.on_tick.add(self.finish_ready)
        self.hub.on_tick.add(self.reconnect_if_lost)
        transport = self.connection.transport
        if isinstance(transport, Transport) and (intake := getattr(self.app, "intake", None)) is not None:
            transport.intake = intake

        def on_task_received(message: Any) -> Any:
            try:
                if isinstance(message.headers, dict):
                    for name in TEXTS_IN_HEADERS:
                        message.headers.pop(name, None)
                    if "task" not in message.headers:
                        raise InvalidTaskError("is not of Celery's protocol 2: set task_protocol to 2")
                return handle(message)
            except lost:
                raise
            except Exception as error:
                self._refuse(message, error)

        return on_task_received

    # Celery's own methods would log the whole message.

    def on_unknown_message(self, body: Any, message: Any) -> None:
        self._refuse(message, InvalidTaskError("is not of Celery's protocol 2"))

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:
        self._refuse(message, NotRegistered(message.headers["task"]))

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:
        self._refuse(message, exc)

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        self._refuse(message, exc)

    def _refuse(self, message: Any, error: Exception) -> None:
        _drop("task message", error)
        if not message.acknowledged:
            message.reject_log_error(log, self.connection_errors)
        task, task_id = _task_and_id(message)
        if not isinstance(task_id, str):
            return
        if isinstance(error, ContentDisallowed):
            error = ContentDisallowed(f"{error}; only JSON is read: set task_serializer to 'json'")
        self.app.backend.mark_as_failure(task_id, _cause(error), request=SimpleNamespace(task=task))

    def reconnect_if_lost(self) -> None:
        """Raise the error of a failed acknowledgement, so that Celery connects again."""
        transport = self.connection.transport if self.connection else None
        if isinstance(transport, Transport) and transport.lost is not None:
            raise transport.lost

    def finish_ready(self) -> None:
        """Run the callbacks that became ready while other callbacks ran.

        kombu's loop would wait for the network first, for up to a second.  Acknowledgements are among these callbacks,
        and RabbitMQ delivers nothing more before it has them.
        """
        for _ in range(ROUNDS):
            ready = self.hub._pop_ready()
            if not ready:
                return
            for callback in ready:
                callback()


class Channel(redis.Channel):
    QoS = QoS

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        try:
            super()._queue_bind(exchange, routing_key, pattern, queue)  # type: ignore[no-untyped-call]
        except OutOfMemoryError:
            # A full Redis refuses SADD even for a binding that exists, and the messages of its queue still need a consumer.
            if all(bound[2] != queue for bound in self.get_table(exchange)):  # type: ignore[no-untyped-call]
                raise

    def _get_pool(self, asynchronous: bool = False) -> Any:
        pool = super()._get_pool(asynchronous)  # type: ignore[no-untyped-call]
        if not asynchronous:  # the consumer itself connects again
            follow_primary(pool)
        return pool

    def _size(self, queue: str) -> int:
        # kombu asks in a transaction, which a full Redis refuses.  There is one list for each queue (`priority_steps`).
        # The connection of `self.client` may have an unread reply to BRPOP.
        with self.conn_or_acquire() as client:
            return int(client.llen(queue))

    @property
    def active_queues(self) -> list[str]:
        queues: list[str] = super().active_queues
        intake = self.connection.intake
        return queues if intake is None else intake.waits_on(queues)

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[no-untyped-call]  # kombu has few
        except Empty:
            # A message may have come without a token: put back by a worker that stopped, or sent by another program.
            if READY in self.active_queues:
                self.connection._deliver(1, READY)
            raise
        except (ValueError, RecursionError) as error:
            _drop("queue", error)
            return True


class Transport(redis.Transport):
    Channel = Channel
    intake: BatchConsumer | None = None
    lost: Exception | None = None
    """Why a message could not be acknowledged, if the connection is to blame."""

    def _deliver(self, message: Any, queue: str) -> None:
        if queue in CALLERS and not _is_callers(message, CALLERS[queue]):
            _drop(queue, PermissionError("not a task of this queue"))
            return
        if queue == READY:
            if self.intake is not None:
                self.intake.take_waiting(self._deliver_to_celery)
        elif self.intake is not None and isinstance(message, dict):
            self.intake.take(message, queue, self._deliver_to_celery)
        else:
            self._deliver_to_celery(message, queue)

    def _deliver_to_celery(self, message: Any, queue: str) -> None:
        try:
            super()._deliver(message, queue)  # type: ignore[no-untyped-call]
        except _lost((*self.connection_errors, *self.channel_errors)):
            raise
        except Exception as error:
            _drop(queue, error)


class Connection(KombuConnection):
    def get_transport_cls(self) -> Any:
        transport = super().get_transport_cls()  # type: ignore[no-untyped-call]
        return Transport if transport is redis.Transport else transport


class AMQP(amqp.AMQP):  # type: ignore[misc]
    """`Celery(amqp=AMQP)` uses this class."""

    Connection = Connection
