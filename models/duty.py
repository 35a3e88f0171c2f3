"""Work that a process repeats: one loop for the threads that sweep, drain, feed, watch and copy."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from typing import Any

from models.errors import ServiceError, cause

log = logging.getLogger(__name__)

PAUSE_S = 1.0


def holds(lease: Any) -> bool:
    """Whether this process is the one that acts: it takes the `lease` (a lock of redis-py), or extends its own."""
    return bool(lease.acquire(blocking=False) or (lease.owned() and lease.reacquire()))


class Duty(ABC):
    """Work that a process repeats in a thread of its own; a subclass defines one tick."""

    failing = "a duty fails"
    """The log's words for a tick that raises.  They are logged once, until a tick succeeds again."""
    expected: tuple[type[Exception], ...] = (ServiceError, OSError)
    """Errors of a service that is away; any other error is logged with its traceback."""

    @abstractmethod
    def tick(self) -> float:
        """Do what is due; returns the seconds until the next tick.  May raise anything."""

    def pause_s(self, failures: int) -> float:
        """The seconds until the next tick after so many ticks in a row that failed."""
        return PAUSE_S

    def explain(self, error: Exception) -> str:
        """The error as the log shows it."""
        return cause(error)

    def reset(self) -> None:  # noqa: B027  most duties keep nothing
        """Called after a tick that failed, and at the end."""

    def run(self, stop: threading.Event) -> None:
        """Tick until `stop` is set, whatever a tick raises."""
        failures = 0
        while not stop.is_set():
            try:
                wait_s = self.tick()
            except Exception as error:
                failures += 1
                if failures == 1:
                    is_expected = isinstance(error, self.expected)
                    log.warning("%s: %s", self.failing, self.explain(error), exc_info=not is_expected)
                wait_s = self.pause_s(failures)
                self.reset()
            else:
                if failures:
                    log.info("%s works again after %d failures", type(self).__name__, failures)
                failures = 0
            stop.wait(wait_s)
        self.reset()
