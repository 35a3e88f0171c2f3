"""Sends shadows: the second search for some ended requests, under another configuration, on the bulk workers.

Losing one does no harm, so they wait in the memory of the process whose drainer wrote the rows of their requests, and those that
may not run now never do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from celery import Celery
from chorale_client.errors import InvalidRequest, RequestIdConflict
from chorale_client.publisher import BROKER_ERRORS
from chorale_client.request import Request
from chorale_client.wire_names import QUEUE_BULK
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from structlog import get_logger

from config.declarations import Shadow
from models.duty import Duty
from models.shadow_ids import request_id_of
from monitoring.queues import queue_states
from records.audit.deletion import keep_rows, keeping_rows
from records.audit.outbox import Ended
from tasks.jobs.feeder import is_interactive_late
from tasks.request.planning.branch_selection import breakers_of
from tasks.request.planning.cost import is_bulk_served
from tasks.request.planning.live_pairs import shadow_of
from tasks.request.retrieve import submit
from tasks.wiring.resources import Resources

log = get_logger("chorale.shadows")

TICK_EVERY_S = 0.5
MOST_DRAWN = 100
"""Shadows between two ticks."""
MOST_WAITING = 100
"""While so many messages wait for the bulk workers, no shadow is sent."""


class Shadows(Duty):
    failing = "no shadow is sent"
    expected = (*Duty.expected, *BROKER_ERRORS, InvalidRequest, RequestIdConflict, SQLAlchemyError)

    def __init__(self, app: Celery, declared: Shadow, trail: Engine) -> None:
        self._fanout = app.fanout
        self._resources: Resources = app.resources
        self._declared = declared
        self._trail = trail
        pipeline = self._resources.pipeline
        self._branches = pipeline.branches_of(pipeline.configurations[declared.b])
        self._drawn: deque[Request] = deque(maxlen=MOST_DRAWN)
        self._why_not: str | None = None

    def ended(self, requests: Sequence[Ended]) -> None:
        """Keep the shadows of these requests, whose rows are written, for the next tick."""
        self._drawn.extend(filter(None, (shadow_of(request, self._declared) for request in requests)))

    def tick(self) -> float:
        """Send what was drawn since the last tick, or forget it."""
        if self._drawn:
            free_slots, why_not = self._free_slots()
            while self._drawn and free_slots > 0:
                self._send(self._drawn.popleft())
                free_slots -= len(self._branches)
            self._drawn.clear()
            if why_not != self._why_not:
                self._why_not = why_not
                log.info("shadows", b=self._declared.b, left_out_because=why_not)
        return TICK_EVERY_S

    def _send(self, shadow: Request) -> None:
        # Whoever erases the request waits for the transaction, and then counts the shadow among those that run.
        with keeping_rows(self._trail) as connection:
            if keep_rows(connection, [request_id_of(shadow.request_id)]):
                submit(self._resources, self._fanout, shadow)

    def _free_slots(self) -> tuple[int, str | None]:
        """How many messages may be sent, or why none may."""
        resources = self._resources
        if not is_bulk_served(resources):
            return 0, "no bulk worker runs"
        # A shadow must not be the request that tries a branch again.
        load = resources.breakers.read(name for branch in self._branches for name in breakers_of(branch))
        if not load.is_well or load.retry_after_ms is not None or is_interactive_late(load.loads):
            return 0, "requests of callers wait, or a breaker is open"
        states = queue_states(resources.redis, [QUEUE_BULK], broker_url=resources.settings.broker_url)
        free_slots = MOST_WAITING - (states[QUEUE_BULK].length or 0)
        return free_slots, "bulk work waits" if free_slots <= 0 else None
