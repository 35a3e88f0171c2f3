"""Sends Celery's events, which Flower shows: many in one message, and the heartbeats of busy workers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from celery import Celery
from celery.events.event import Event as CeleryEvent
from celery.utils.sysinfo import load_average
from celery.worker import state
from chorale_client.publisher import BROKER_ERRORS
from kombu.common import ignore_errors
from structlog import get_logger

log = get_logger("chorale.events")


consumed_ids: set[str] = set()
"""Task ids of the messages that `tasks.celery_internals.batch_consumer` has in hand."""


def ids_in_progress() -> list[str]:
    return [*state.requests, *consumed_ids]


Event = tuple[str, Mapping[str, Any]]
"""The type of an event, such as `task-succeeded`, and its fields: `uuid`, `name`, `timestamp` (seconds) and others.

A `worker` is the one that did the task, if that is not the sender.
"""

HEARTBEAT_S = 2.0
"""The interval of Celery's own heartbeats.  Flower calls a worker offline after twice this time."""

MOST = 10_000
"""Events in one message."""

_MESSAGE = {"args": "()", "kwargs": "{}", "retries": 0, "eta": None, "expires": None}
_FAMILY = {"root_id": None, "parent_id": None}
_USUAL: Mapping[str, Mapping[str, Any]] = {
    "task-sent": {**_MESSAGE, **_FAMILY, "queue": None, "exchange": None, "routing_key": None},
    "task-received": {**_MESSAGE, **_FAMILY},
    "task-failed": {"exception": "", "traceback": "none"},
    "task-rejected": {"requeue": False},
    "task-revoked": {"terminated": False, "signum": None, "expired": False},
    "worker-offline": {"freq": HEARTBEAT_S, **state.SOFTWARE_INFO},
}
"""Fields that Celery documents for an event, and monitors such as `celery events` read; an event may have other values."""


def heartbeat(*, active: int, processed: int) -> Event:
    """A sign of life; the counts are of tasks."""
    load = {"freq": HEARTBEAT_S, "active": active, "processed": processed, "loadavg": load_average()}
    return "worker-heartbeat", {**load, **state.SOFTWARE_INFO}


def beat_while_busy(consumer: Any) -> None:
    """Send the heartbeat of a solo worker, from another thread: Celery's own timer waits until the task has ended."""
    if (dispatcher := consumer.event_dispatcher) is not None:
        kind, fields = heartbeat(active=len(ids_in_progress()), processed=state.all_total_count[0])
        dispatcher.send(kind, **fields)


class EventSender:
    """Sends the events of a process that is no Celery worker.

    Flower lists the process as a worker with this name.  Threads may share the sender.

    Events are lost while the broker is away.
    """

    def __init__(self, app: Celery, name: str) -> None:
        self._app = app
        self._hostname = f"{name}@{socket.gethostname()}"
        self._dispatcher: Any = None
        self._lock = threading.Lock()
        self._is_away = False

    def send(self, events: Iterable[Event]) -> None:
        with self._lock:
            try:
                dispatcher = self._dispatcher = self._dispatcher or self._open()
                for kind, fields in events:
                    dispatcher.send(kind, Event=_event_of_worker, **{**_USUAL.get(kind, {}), **fields})
                dispatcher.flush(errors=False)
            except BROKER_ERRORS as error:
                if not self._is_away:
                    log.warning("events are lost", error=f"{type(error).__name__}: {error}"[:200])
                self._is_away = True
                self._close()
            else:
                self._is_away = False

    def close(self) -> None:
        self.send([("worker-offline", {})])
        with self._lock:
            self._close()

    def _open(self) -> Any:
        # With a channel kombu tries to connect once, and not for ever.  Celery sends a buffered group of events as one list.
        # Other workers read the events of workers, and expect no list.
        return self._app.events.Dispatcher(
            channel=self._app.connection_for_write().channel(),
            hostname=self._hostname,
            buffer_group={"task"},
            buffer_limit=MOST,
            buffer_while_offline=False,
        )

    def _close(self) -> None:
        if self._dispatcher is not None:
            ignore_errors(self._dispatcher.connection, self._dispatcher.connection.close)
            self._dispatcher = None


def _event_of_worker(kind: str, *, hostname: str, worker: str | None = None, **fields: Any) -> Any:
    return CeleryEvent(kind, hostname=worker or hostname, **fields)
