"""Deletes requests from the audit tables when they are older than the installation keeps them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from audit import table_deletion
from audit.drainer import cause
from models.errors import ServiceError

EVERY_S = 3_600.0
PAUSE_S = 0.05
"""Between two transactions, so that drainers can write."""

log = logging.getLogger(__name__)


class Retention:
    """Keeps requests for `keep_s` seconds; several may run at once.  `run` calls `prepare` before each look."""

    def __init__(self, engine: Engine, *, keep_s: float, prepare: Callable[[], None] = lambda: None) -> None:
        self._engine = engine
        self._keep_s = keep_s
        self._prepare = prepare

    def run(self, stop: threading.Event) -> None:
        """Look every hour, or more often for a short time; a database that is away is asked again at the next look."""
        while not stop.is_set():
            is_more = False
            try:
                self._prepare()
                is_more = self.prune_once() == table_deletion.AT_ONCE
            except (SQLAlchemyError, ServiceError, OSError) as error:
                log.warning("audit: old requests cannot be deleted: %s", cause(error))
            stop.wait(PAUSE_S if is_more else min(EVERY_S, self._keep_s / 10))

    def prune_once(self) -> int:
        """Delete old requests in one transaction; returns how many, at most `table_deletion.AT_ONCE`."""
        before_ms = max(0, time.time_ns() // 1_000_000 - round(self._keep_s * 1_000))
        return table_deletion.remove_some(self._engine, table_deletion.older_than(before_ms))
