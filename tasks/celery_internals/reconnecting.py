"""A consumer that reconnects within a moment after the broker has returned.

Celery's own consumer waits two seconds after its first failed attempt, then four, then six: longer than a request
lives.  If RabbitMQ refuses the login, it ends with a traceback.
"""

from __future__ import annotations

import time
from typing import Any

from celery.worker.consumer import Consumer
from celery.worker.state import maybe_shutdown
from structlog import get_logger

log = get_logger("chorale.worker")

FIRST_S, STEP_S, LONGEST_S = 0.1, 0.1, 1.0
"""Waits between attempts.  A worker that is told to stop meanwhile stops."""


class ReconnectingConsumer(Consumer):  # type: ignore[misc]  # Celery has no type hints
    """The base of `tasks.celery_internals.consuming.Consumer`."""

    def ensure_connected(self, conn: Any) -> Any:
        said: list[str] = []

        def tell_once(error: Exception, _interval_s: float) -> None:
            if not said:
                said.append(str(error))
                log.warning("broker unreachable", broker=conn.as_uri(), error=said[0][:200])

        while True:
            try:
                conn.ensure_connection(
                    tell_once,
                    interval_start=FIRST_S,
                    interval_step=STEP_S,
                    interval_max=LONGEST_S,
                    callback=maybe_shutdown,
                )
                break
            except (*conn.connection_errors, *conn.channel_errors) as error:
                # kombu does not try again after a refused login or virtual host.
                tell_once(error, LONGEST_S)
                maybe_shutdown()
                time.sleep(LONGEST_S)
        if said:
            log.info("broker answers again")
        return super().ensure_connected(conn)
