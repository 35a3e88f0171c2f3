"""Messages that nobody would send again: who sends one waits until the broker has it."""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu.exceptions import OperationalError

ANSWERS_WITHIN_S = 5.0
"""RabbitMQ, each time that something is asked of it."""


def send_confirmed(app: Celery, task: str, **message: Any) -> None:
    """Like `app.send_task`, and returns when the broker has the message.  Raises KombuError, RedisError, OSError: then
    it may have it all the same.

    RabbitMQ is spoken to on a connection of its own, which costs 3 ms: one from a pool may have died meanwhile, and one
    whose confirmation came too late would confirm the next message with it.
    """
    with app.connection_for_write(transport_options={"confirm_publish": True}) as connection:
        if connection.transport.driver_type != "amqp":
            # A command that Redis answers is done.
            app.send_task(task, **message)
            return
        try:
            connection.ensure_connection(max_retries=len(connection.alt), interval_start=0)
            # Here, since py-amqp's own `read_timeout` ends no waiting.
            connection.connection.transport.sock.settimeout(ANSWERS_WITHIN_S)
            app.send_task(task, producer=connection.Producer(), **message)
        except Exception as error:
            # Without the farewell, which could be waited for in vain.
            connection.collect()
            if isinstance(error, (*connection.connection_errors, *connection.channel_errors)):
                raise OperationalError(str(error)) from error
            raise
