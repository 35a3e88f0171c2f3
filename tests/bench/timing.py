"""Asks the same questions in several ways, in rounds by turns, and takes their times and processor time."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import psutil
from chorale_client.answer import Answer
from chorale_client.wire_names import Status

from models.errors import ServiceError

Ask = Callable[[str], Any]
"""Answers one question, or raises; called by several threads."""
ROUNDS = 3
CALLER = "caller"
WARMING = "a question before the others"


class Hung(ServiceError):
    """A request has no complete answer within its time: it is counted, and the measurement goes on."""


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
        return round(ordered[max(0, ceil(share * len(ordered)) - 1)], 2) if ordered else None

    def to_wire(self, name: str, in_flight: int) -> dict[str, Any]:
        answered = max(1, len(self.latencies_ms))
        return {
            "name": name,
            "in_flight": in_flight,
            "p50_ms": self.percentile_ms(0.50),
            "p95_ms": self.percentile_ms(0.95),
            "p99_ms": self.percentile_ms(0.99),
            "requests_per_s": float(f"{len(self.latencies_ms) / self.wall_s:.4g}"),
            "hung": self.hung,
            "cpu_ms": {process: round(ms / answered, 2) for process, ms in self.cpu_ms.items()},
        }


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to answer a question."""

    name: str
    ask: Ask
    processes: tuple[str, ...] = ()
    """The others stand still meanwhile."""
    prepare: Ask | None = None
    """Called with every question before its round; not timed."""
    settle: Callable[[], object] = lambda: None
    """Waits until the processes have done what an answered request leaves to do, such as its audit row."""
    beside: Callable[[], AbstractContextManager[object]] = nullcontext
    """What runs beside each round."""


def compare(
    variants: Sequence[Variant],
    questions: Mapping[int, Sequence[str]],
    *,
    run_only: Callable[[Sequence[str]], Mapping[str, int] | None],
    progress: Callable[[str], None] = lambda what: None,
    rounds: int = ROUNDS,
) -> list[dict[str, Any]]:
    """Every variant on the same questions, which are given for each number in flight.

    `run_only(processes)` lets these run, holds the others still, and returns the ids to measure by name.  The order of the
    variants rotates from round to round.  Raises what a variant's `ask` raises, other than Hung, which is counted.
    """
    timings = {(variant.name, in_flight): Timing() for in_flight in questions for variant in variants}
    for number in range(rounds):
        first = number % len(variants)
        for variant in [*variants[first:], *variants[:first]]:
            pids = run_only(variant.processes) or {}
            for in_flight, texts in questions.items():
                portion = texts[number::rounds]
                progress(f"{variant.name}, {in_flight} in flight, round {number + 1} of {rounds}")
                if variant.prepare is not None:
                    drive(variant.prepare, portion, in_flight=in_flight, timing=Timing())
                timing = timings[variant.name, in_flight]
                with variant.beside():
                    meter = cpu_measured(timing, pids, variant.settle)
                    drive(variant.ask, portion, in_flight=in_flight, timing=timing, meter=meter)
    return [timing.to_wire(name, in_flight) for (name, in_flight), timing in timings.items()]


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

    Each thread asks once before `meter` and the clock start: connections are a thread's own.  A request that hangs is
    counted, and any other error of `ask` ends the measurement and is raised.
    """
    waiting = iter(list(texts))  # threads may share a list's iterator
    hung: list[Hung] = []
    warm = threading.Barrier(in_flight)

    def ask_first(_: int) -> None:
        try:
            ask(WARMING)
        except Hung as error:
            hung.append(error)
        finally:
            warm.wait()  # so that no thread asks twice

    def work(_: int) -> None:
        for text in waiting:
            begun_s = time.perf_counter()
            try:
                ask(text)
                timing.latencies_ms.append((time.perf_counter() - begun_s) * 1_000)
            except Hung as error:
                hung.append(error)
            except Exception:
                deque(waiting, maxlen=0)  # the other threads stop
                raise

    with ThreadPoolExecutor(in_flight) as threads:
        list(threads.map(ask_first, range(in_flight)))
        with meter or nullcontext():
            begun_s = time.perf_counter()
            list(threads.map(work, range(in_flight)))
            timing.wall_s += time.perf_counter() - begun_s
    timing.hung += len(hung)


def complete(text: str, answer: Answer | None) -> Answer:
    """Raises Hung if the answer is not complete, or none came: its time must not be measured."""
    if answer is None or answer.status != Status.COMPLETE:
        raise Hung(f"{text!r}: {answer.degraded if answer else 'no answer came'}")
    return answer


def ask_all(ask: Ask, texts: Sequence[str]) -> int:
    """Ask every text, one after another; returns how many were answered, which those that hang are not."""
    answered = 0
    for text in texts:
        with suppress(Hung):
            ask(text)
            answered += 1
    return answered
