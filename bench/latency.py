"""Compares the time of a request between variants: rounds alternate, and the processes of the others stand still."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import psutil
from chorale_client.answer import Answer
from redis import Redis

from bench.redis_cost import bytes_held, count_commands, wait_for_audit
from bench.timing import WARMING, Ask, Timing, ask_all, drive

IN_FLIGHT = (1, 16)
ROUNDS = 3
COUNTED_REQUESTS = 100
SETTLED_S = 5.0
"""Wait after the audit's commit: the keys that are left then stay until they expire."""
CALLER = "caller"


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to answer a question."""

    name: str
    ask: Ask
    processes: tuple[str, ...] = ()
    """The processes that have to run for it."""
    prepare: Ask | None = None
    """Called with every question before its round; not timed."""


@dataclass(frozen=True, slots=True)
class RedisCost:
    """What one request costs Redis, on average."""

    redis_commands_per_request: float
    redis_commands_by_verb: Mapping[str, float]
    redis_bytes_left_per_request: int


@dataclass(frozen=True, slots=True)
class Latency:
    """What `chorale bench latency --json` prints."""

    runs: list[dict[str, Any]]
    no_op_runs: list[dict[str, Any]]
    """The same figures for branches that do no work."""
    cost: RedisCost
    cpu_ms_per_request: Mapping[str, Mapping[str, float]]
    """Processor time of one request by variant and process, one after another."""
    waterfall: list[dict[str, Any]]

    def to_wire(self) -> dict[str, Any]:
        fields = asdict(self)
        cost = fields.pop("cost")
        return {**fields, **cost}


def compare(
    variants: Sequence[Variant],
    questions: Mapping[int, Sequence[str]],
    *,
    run_only: Callable[[Sequence[str]], None],
    progress: Callable[[str], None] = lambda what: None,
    rounds: int = ROUNDS,
) -> list[dict[str, Any]]:
    """Every variant on the same questions, which are given for each number in flight.

    `run_only(processes)` lets these run and holds the others still.  The order of the variants rotates from
    round to round.  Raises what a variant's `ask` raises, other than Hung, which is counted.
    """
    timings = {(one.name, in_flight): Timing() for in_flight in questions for one in variants}
    for number in range(rounds):
        first = number % len(variants)
        for variant in [*variants[first:], *variants[:first]]:
            run_only(variant.processes)
            for in_flight, texts in questions.items():
                mine = texts[number::rounds]
                progress(f"{variant.name}, {in_flight} in flight, round {number + 1} of {rounds}")
                if variant.prepare is not None:
                    drive(variant.prepare, mine, in_flight=in_flight, timing=Timing())
                drive(variant.ask, mine, in_flight=in_flight, timing=timings[variant.name, in_flight])
    return [timing.to_wire(name, in_flight) for (name, in_flight), timing in timings.items()]


def redis_cost(client: Redis, ask: Ask, questions: Sequence[str]) -> RedisCost:
    """Commands and bytes of the requests that `ask` makes, one after another; raises NotAudited."""
    ask(WARMING)
    wait_for_audit(client)
    time.sleep(SETTLED_S)
    before = bytes_held(client)
    found = count_commands(client, lambda: ask_all(ask, questions))
    time.sleep(SETTLED_S)
    count = len(questions)
    by_verb = {verb: round(times / count, 2) for verb, times in found.most_common()}
    bytes_left = round((bytes_held(client) - before) / count)
    return RedisCost(round(found.total() / count, 2), by_verb, bytes_left)


def cpu_of(variant: Variant, questions: Sequence[str], processes: Mapping[str, int]) -> dict[str, float]:
    """Milliseconds of processor time that one answered request costs each of `processes` and the caller.

    `processes` are process ids by name.  Processor time hardly depends on the other load of the machine.
    """
    ask_all(variant.ask, [WARMING])
    if variant.prepare is not None:
        ask_all(variant.prepare, questions)
    watched = {name: psutil.Process(pid) for name, pid in {**processes, CALLER: os.getpid()}.items()}
    before = {name: _cpu_ms(process) for name, process in watched.items()}
    answered = ask_all(variant.ask, questions)
    spent = {name: _cpu_ms(process) - before[name] for name, process in watched.items()}
    return {name: round(ms / max(1, answered), 2) for name, ms in spent.items()}


def _cpu_ms(process: psutil.Process) -> float:
    times = process.cpu_times()
    return 1_000 * (times.user + times.system)


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
