"""How a worker stops: what runs is finished if that is soon, and otherwise goes back to its queue.

| signal                       | takes nothing new, and what runs                                        |
|------------------------------|-------------------------------------------------------------------------|
| SIGTERM, SIGINT              | may go on for `soft_shutdown_s`, then is interrupted                    |
| SIGQUIT, either of them again| is interrupted at once                                                  |

Celery's own handlers end a task by ending the pool's process.  The solo pool has none: there the task itself would
see NotImplementedError, count as failed, and its message as done.  Raised in the task, WorkerTerminate leaves the
message without its acknowledgement, and kombu puts it back when it closes the connection.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from celery.exceptions import WorkerTerminate
from celery.worker import state

_ASKS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stopping_softly(worker: Any, soft_shutdown_s: float) -> Iterator[None]:
    """For the main thread around `worker.start()`, of Celery's solo pool; takes the signals over from Celery, whose own
    handlers would print, before it connects."""
    take_its_own = worker.install_platform_tweaks

    def finish(number: int, frame: FrameType | None) -> None:
        state.should_stop = 0
        for again in _ASKS:
            signal.signal(again, _interrupt)
        # 0 would never ring.
        signal.setitimer(signal.ITIMER_REAL, max(soft_shutdown_s, 0.001))

    def take_over(given: Any) -> None:
        take_its_own(given)
        for number in _ASKS:
            signal.signal(number, finish)
        for number in (signal.SIGQUIT, signal.SIGALRM):
            signal.signal(number, _interrupt)

    worker.install_platform_tweaks = take_over
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # Once: what is put back must not be interrupted in its turn.
    for other in (*_ASKS, signal.SIGQUIT, signal.SIGALRM):
        signal.signal(other, signal.SIG_IGN)
    raise WorkerTerminate(0)
