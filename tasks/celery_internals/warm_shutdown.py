"""How a worker stops: it takes no new message, and finishes the running task or puts its message back.

| signal                              | the running task                                     |
|-------------------------------------|------------------------------------------------------|
| SIGTERM, SIGINT                     | may run for `soft_shutdown_s`, then is interrupted   |
| SIGQUIT; SIGTERM or SIGINT again    | is interrupted at once                               |

Celery's own handlers end a task by ending the pool's process, which the solo pool does not have: the task would raise
NotImplementedError and count as failed, its message as done.  A WorkerTerminate that is raised in the task leaves the
message unacknowledged, and kombu puts it back when it closes the connection.
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
    """Wraps `worker.start()` of a solo pool in the main thread.  Replaces Celery's signal handlers, which would print,
    before the worker connects."""
    take_its_own = worker.install_platform_tweaks

    def finish(number: int, frame: FrameType | None) -> None:
        state.should_stop = 0
        for again in _ASKS:
            signal.signal(again, _interrupt)
        # A timer of 0 would never fire.
        signal.setitimer(signal.ITIMER_REAL, max(soft_shutdown_s, 0.001))

    def take_over(worker: Any) -> None:
        take_its_own(worker)
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
    # Once only: putting messages back must not be interrupted.
    for other in (*_ASKS, signal.SIGQUIT, signal.SIGALRM):
        signal.signal(other, signal.SIG_IGN)
    raise WorkerTerminate(0)
