"""Celery's consumer, which comes back to a broker within a moment of its return.

Celery itself waits two seconds after the first attempt that failed, then four, six: longer than a request lives.  Where
RabbitMQ refuses the login it would end, with a traceback.
"""

from __future__ import annotations

import time
from typing import Any

from celery.worker.consumer import Consumer
from celery.worker.state import maybe_shutdown
from structlog import get_logger

log = get_logger("chorale.worker")

FIRST_S, STEP_S, LONGEST_S = 0.1, 0.1, 1.0
"""Between attempts; a worker that is told to stop meanwhile does so."""


class ReconnectingConsumer(Consumer):  # type: ignore[misc]  # Celery has no type hints
    """What `tasks.celery_surface.consuming`, which `worker_consumer` names, is made of."""

    def ensure_connected(self, conn: Any) -> Any:
        said: list[str] = []

        def tell_once(error: Exception, _interval_s: float) -> None:
            if not said:
                said.append(str(error))
                log.warning("broker takes nobody in", broker=conn.as_uri(), error=said[0][:200])

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
                # What kombu does not try again: a login or virtual host that is refused.
                tell_once(error, LONGEST_S)
                maybe_shutdown()
                time.sleep(LONGEST_S)
        if said:
            log.info("broker answers again")
        return super().ensure_connected(conn)
