"""Sends messages that nobody would send again: the sender waits until the broker has the message."""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu.exceptions import OperationalError

ANSWERS_WITHIN_S = 5.0
"""Timeout of each answer of RabbitMQ."""


def send_confirmed(app: Celery, task: str, **message: Any) -> None:
    """Like `app.send_task`, but returns when the broker has the message.  Raises KombuError, RedisError, OSError; the
    broker may have the message even then.

    For RabbitMQ each message opens a connection, which costs 3 ms: a pooled connection may be dead, and a late
    confirmation on it would confirm the next message.
    """
    with app.connection_for_write(transport_options={"confirm_publish": True}) as connection:
        if connection.transport.driver_type != "amqp":
            # Redis has the message when it answers the command.
            app.send_task(task, **message)
            return
        try:
            connection.ensure_connection(max_retries=len(connection.alt), interval_start=0)
            # Set on the socket, since py-amqp's own `read_timeout` does not limit this wait.
            connection.connection.transport.sock.settimeout(ANSWERS_WITHIN_S)
            app.send_task(task, producer=connection.Producer(), **message)
        except Exception as error:
            # `collect` closes without AMQP's closing handshake, which might never be answered.
            connection.collect()
            if isinstance(error, (*connection.connection_errors, *connection.channel_errors)):
                raise OperationalError(str(error)) from error
            raise
