"""Asking many questions with some in flight, and what is said of the time it took."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

Ask = Callable[[str], Any]
"""Answers one question, or raises; called by several threads."""
WARMING = "a question before the others"


@dataclass(slots=True)
class Timing:
    """All rounds of one variant."""

    latencies_ms: list[float] = field(default_factory=list)
    wall_s: float = 0.0

    def percentile_ms(self, share: float) -> float:
        """The smallest latency that `share` of the requests did not exceed (nearest rank)."""
        ordered = sorted(self.latencies_ms)
        return ordered[max(0, ceil(share * len(ordered)) - 1)]

    @property
    def requests_per_s(self) -> float:
        return len(self.latencies_ms) / self.wall_s

    def to_wire(self, name: str, in_flight: int) -> dict[str, Any]:
        return {
            "name": name,
            "in_flight": in_flight,
            "p50_ms": round(self.percentile_ms(0.50), 2),
            "p95_ms": round(self.percentile_ms(0.95), 2),
            "p99_ms": round(self.percentile_ms(0.99), 2),
            "requests_per_s": round(self.requests_per_s, 1),
        }


def drive(ask: Ask, texts: Sequence[str], *, in_flight: int, timing: Timing) -> None:
    """Ask every text, `in_flight` at a time from as many threads; the first error of `ask` ends it.

    Each thread asks once before the clock starts: connections are a thread's own.
    """
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for text in texts:
        waiting.put(text)
    latencies_ms: list[float] = []
    errors: list[Exception] = []
    ready = threading.Barrier(in_flight + 1)

    def work() -> None:
        try:
            ask(WARMING)
        except Exception as error:
            errors.append(error)
        ready.wait()
        while not errors:
            try:
                text = waiting.get_nowait()
            except queue.Empty:
                return
            begun_s = time.perf_counter()
            try:
                ask(text)
            except Exception as error:
                errors.append(error)
                return
            latencies_ms.append((time.perf_counter() - begun_s) * 1_000)

    threads = [threading.Thread(target=work) for _ in range(in_flight)]
    for thread in threads:
        thread.start()
    ready.wait()
    begun_s = time.perf_counter()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    timing.wall_s += time.perf_counter() - begun_s
    timing.latencies_ms += latencies_ms
