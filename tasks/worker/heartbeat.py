"""A worker's heartbeat in Redis, which the supervisor and `chorale status` read.

It stops when a task runs too long, so that a hung worker looks like a dead one and is restarted.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from celery import signals
from chorale_client.keys import HEARTBEAT, SERVED
from chorale_client.wire_names import QUEUE_BULK, WIRE_VERSION
from redis import Redis
from redis.exceptions import RedisError

from tasks.celery_internals.in_progress import ids_in_progress

EVERY_S = 1.0
KEPT_S = 10
HUNG_AFTER_S = 60.0
"""No part of a request takes this long: its own limits end it earlier."""


class Heartbeat:
    """Writes the heartbeat from a thread until `stop`; `ready` becomes true when models and indexes are warm."""

    def __init__(
        self,
        client: Redis,
        name: str,
        queues: Sequence[str],
        *,
        hung_after_s: float | None,
        keep: Callable[[], object] = lambda: None,
    ) -> None:
        """`keep` is called with each heartbeat."""
        self._client = client
        self._keep = keep
        self._key = HEARTBEAT + name
        self._queues = list(queues)
        self._hung_after_s = hung_after_s
        self._busy_since_s: float | None = None
        self._stop = threading.Event()
        self.while_busy: Callable[[], None] = lambda: None
        """Called with each heartbeat while the present task has taken longer than EVERY_S."""
        self.ready = False
        self.about: Mapping[str, Any] = {}
        """See `tasks.worker.self_report`."""
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        signals.task_prerun.connect(self._begin, weak=False)
        signals.task_postrun.connect(self._end, weak=False)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=EVERY_S * 2)
        with contextlib.suppress(RedisError):
            self._client.delete(self._key)

    def beat(self) -> None:
        """Write the heartbeat once, unless the worker is stuck in a task."""
        busy_s = time.monotonic() - self._busy_since_s if self._busy_since_s is not None else 0.0
        if self._hung_after_s is not None and busy_s > self._hung_after_s:
            return
        seconds, microseconds = self._client.time()
        sign = {
            "at": seconds * 1000 + microseconds // 1000,
            "ready": self.ready,
            "pid": os.getpid(),
            "queues": self._queues,
            "wire": WIRE_VERSION,
            # Ids of the messages that it has in hand.
            "tasks": ids_in_progress(),
            "about": self.about,
        }
        self._client.set(self._key, json.dumps(sign), ex=KEPT_S)
        self._keep()
        if self.ready and QUEUE_BULK in self._queues:
            self._client.set(SERVED + QUEUE_BULK, 1, ex=KEPT_S)
        if busy_s > EVERY_S:
            self.while_busy()

    def _run(self) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(RedisError):
                self.beat()
            self._stop.wait(EVERY_S)

    def _begin(self, **_: object) -> None:
        self._busy_since_s = time.monotonic()

    def _end(self, **_: object) -> None:
        self._busy_since_s = None
