"""Compares the time of a request between variants: rounds alternate, and the processes of the others stand still."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from chorale_client.answer import Answer
from redis import Redis

from bench.redis_cost import audit_rows, bytes_held, count_commands, operations_and_bytes, wait_for_audit
from bench.timing import ROUNDS, Ask, Timing, cpu_measured, drive

COUNTED_REQUESTS = 100
COUNTED_IN_FLIGHT = (1, 16)
SETTLED_S = 5.0
"""Wait after the audit's commit: the keys that are left then stay until they expire."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to answer a question."""

    name: str
    ask: Ask
    processes: tuple[str, ...] = ()
    prepare: Ask | None = None
    """Called with every question before its round; not timed."""
    settle: Callable[[], object] = lambda: None
    """Waits for the work that answered requests leave behind."""


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
    timings = {(one.name, in_flight): Timing() for in_flight in questions for one in variants}
    for number in range(rounds):
        first = number % len(variants)
        for variant in [*variants[first:], *variants[:first]]:
            pids = run_only(variant.processes)
            for in_flight, texts in questions.items():
                mine = texts[number::rounds]
                progress(f"{variant.name}, {in_flight} in flight, round {number + 1} of {rounds}")
                if variant.prepare is not None:
                    drive(variant.prepare, mine, in_flight=in_flight, timing=Timing())
                timing = timings[variant.name, in_flight]
                meter = cpu_measured(timing, pids or {}, variant.settle)
                drive(variant.ask, mine, in_flight=in_flight, timing=timing, meter=meter)
    return [timing.to_wire(name, in_flight) for (name, in_flight), timing in timings.items()]


def redis_cost(client: Redis, ask: Ask, questions: Sequence[str], *, audit_url: str) -> dict[str, Any]:
    """What one request that `ask` makes costs Redis and the audit trail, on average; raises ServiceError if no drainer runs.

    `redis_at` has for each number in flight the commands of clients, all operations with those inside scripts, and bytes
    moved.
    """
    by_verb: dict[str, float] = {}
    left, seen, number = 0, [], itertools.count()
    wait_for_audit(client)
    requests, rows = audit_rows(audit_url)
    for in_flight in COUNTED_IN_FLIGHT:
        # Each thread asks once before the others.
        count = len(questions) + in_flight

        def work(in_flight: int = in_flight) -> None:
            # Other texts each time, so that no worker knows their vectors.
            turn = next(number)
            drive(ask, [f"{text} {turn}" for text in questions], in_flight=in_flight, timing=Timing())
            wait_for_audit(client)

        work()
        before = 0 if by_verb else _settled_bytes(client)
        found = count_commands(client, work)
        if not by_verb:
            by_verb = {verb: round(times / count, 2) for verb, times in found.most_common()}
            left = round((_settled_bytes(client) - before) / count)
        begun = operations_and_bytes(client)
        work()
        operations, moved = (
            after - one for after, one in zip(operations_and_bytes(client), begun, strict=True)
        )
        seen.append(
            {
                "in_flight": in_flight,
                "commands": round(found.total() / count, 2),
                "operations": round(operations / count, 1),
                "bytes_moved": round(moved / count),
            }
        )
    more_requests, more_rows = audit_rows(audit_url)
    each = round((more_rows - rows) / (more_requests - requests), 1)
    return {
        "redis_commands_per_request": seen[0]["commands"],
        "redis_commands_by_verb": by_verb,
        "redis_bytes_left_per_request": left,
        "audit_rows_per_request": each,
        "redis_at": seen,
    }


def _settled_bytes(client: Redis) -> int:
    time.sleep(SETTLED_S)
    return bytes_held(client)


def cpu_by_process(runs: Sequence[Mapping[str, Any]], suffix: str = "") -> dict[str, dict[str, float]]:
    """Processor time by variant and process, of the runs with the smallest number in flight."""
    least = min(run["in_flight"] for run in runs)
    return {f"{run['name']}{suffix}": run["cpu_ms"] for run in runs if run["in_flight"] == least}


def waterfall_of(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """The median place and length of each stage, in milliseconds from the acceptance of the request."""
    lines: dict[str, list[tuple[float | None, float]]] = {}
    for answer in answers:
        for line in answer.stages:
            if line.status == "ok":
                lines.setdefault(line.stage, []).append((line.start_ms, line.ms))
    shown = []
    for stage, seen in lines.items():
        starts = [start for start, _ in seen if start is not None]
        shown.append(
            {
                "stage": stage,
                "start_ms": round(median(starts), 2) if starts else None,
                "ms": round(median(ms for _, ms in seen), 2),
            }
        )
    return shown
