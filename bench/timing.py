"""Asks many questions with several in flight, and computes percentiles of their times."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import psutil

Ask = Callable[[str], Any]
"""Answers one question, or raises; called by several threads."""
CALLER = "caller"
WARMING = "a question before the others"


class Hung(Exception):
    """A request has no answer within its time: it is counted, and the measurement goes on."""


@dataclass(slots=True)
class Timing:
    """The times of all rounds of one variant."""

    latencies_ms: list[float] = field(default_factory=list)
    """One value for each request that was answered."""
    wall_s: float = 0.0
    """Also waits for the requests that hung."""
    hung: int = 0
    """Requests without an answer."""
    cpu_ms: Counter[str] = field(default_factory=Counter)
    """Processor time of all requests by process."""

    def percentile_ms(self, share: float) -> float | None:
        """The smallest latency that `share` of the requests did not exceed (nearest rank).

        None where no request was answered.
        """
        ordered = sorted(self.latencies_ms)
        return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else None

    def to_wire(self, name: str, in_flight: int) -> dict[str, Any]:
        return {
            "name": name,
            "in_flight": in_flight,
            "p50_ms": _rounded(self.percentile_ms(0.50)),
            "p95_ms": _rounded(self.percentile_ms(0.95)),
            "p99_ms": _rounded(self.percentile_ms(0.99)),
            "requests_per_s": round(len(self.latencies_ms) / self.wall_s, 1),
            "hung": self.hung,
            "cpu_ms": {
                name: round(ms / max(1, len(self.latencies_ms)), 2) for name, ms in self.cpu_ms.items()
            },
        }


def _rounded(ms: float | None) -> float | None:
    return None if ms is None else round(ms, 2)


def cpu_ms(processes: Mapping[str, int]) -> Counter[str]:
    """Processor time so far of the processes, given as ids by name, and of this one, the caller.

    Processor time depends less on the other load of the machine than the time that passes.
    """
    spent = {
        name: psutil.Process(pid).cpu_times() for name, pid in {**processes, CALLER: os.getpid()}.items()
    }
    return Counter({name: 1_000 * (times.user + times.system) for name, times in spent.items()})


@contextmanager
def cpu_measured(
    timing: Timing, processes: Mapping[str, int], settle: Callable[[], object]
) -> Iterator[None]:
    """Adds the processor time of the block.  `settle` waits for the work that answered requests leave behind; it counts."""
    before = cpu_ms(processes)
    yield
    settle()
    spent = cpu_ms(processes)
    spent.subtract(before)
    timing.cpu_ms.update(spent)


def drive(
    ask: Ask,
    texts: Sequence[str],
    *,
    in_flight: int,
    timing: Timing,
    meter: AbstractContextManager[object] | None = None,
) -> None:
    """Ask every text, `in_flight` at a time from as many threads.

    Each thread asks once before the clock starts: connections are a thread's own.  A request that hangs is counted,
    and any other error of `ask` ends the measurement and is raised.  `meter` is entered for the timed requests only.
    """
    waiting = iter(list(texts))  # threads may share a list's iterator
    latencies_ms: list[float] = []
    hung: list[Hung] = []
    errors: list[Exception] = []
    ready = threading.Barrier(in_flight + 1)

    def ask_timed(text: str, times_ms: list[float]) -> None:
        begun_s = time.perf_counter()
        try:
            ask(text)
            times_ms.append((time.perf_counter() - begun_s) * 1_000)
        except Hung as error:
            hung.append(error)
        except Exception as error:
            errors.append(error)

    def work() -> None:
        ask_timed(WARMING, [])
        ready.wait()
        for text in waiting:
            if errors:
                return
            ask_timed(text, latencies_ms)

    threads = [threading.Thread(target=work) for _ in range(in_flight)]
    for thread in threads:
        thread.start()
    ready.wait()
    with meter or nullcontext():
        begun_s = time.perf_counter()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        timing.wall_s += time.perf_counter() - begun_s
    timing.latencies_ms += latencies_ms
    timing.hung += len(hung)


def ask_all(ask: Ask, texts: Sequence[str]) -> int:
    """Ask every text, one after another; returns how many were answered, which those that hang are not."""
    answered = 0
    for text in texts:
        with suppress(Hung):
            ask(text)
            answered += 1
    return answered
