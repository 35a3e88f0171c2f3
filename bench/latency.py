"""Compares the time of a request between variants, and measures what requests cost Redis and the audit tables.

Rounds alternate, and the processes of the others stand still.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from chorale_client.answer import Answer
from chorale_client.keys import HEARTBEAT, OUTBOX, SWEEPER, TELLER
from redis import Redis
from sqlalchemy import func, select

from audit.database import open_database
from bench.timing import ROUNDS, Ask, Timing, cpu_measured, drive
from models.audit_tables import AuditTable, RequestRow
from models.errors import ServiceError

AUDIT_LIMIT_S = 30.0
_END = "the measured requests have ended"
_NOT_COUNTED = frozenset(
    # Commands that workers send without any request, and those of the measurement itself.
    {"BRPOP", "TIME", "PING", "HELLO", "XLEN", "XREAD", "ECHO", "MONITOR"}
)


def is_counted(entry: Mapping[str, Any]) -> bool:
    """Whether a line of MONITOR is a command that a client sent for a request (see docs/evidence/measurements.md).

    A script counts as one command, EVALSHA; the commands inside it do not count.  What processes send at fixed intervals does
    not count either, since a slow machine sees more of it for each request: heartbeats, the sweeper's looks at the ledger and
    at the queues, and the lease of the process that tells of ends.
    """
    if entry["client_type"] == "lua":
        return False
    command = str(entry["command"])
    verb, *words = command.split(" ")
    if verb.upper() in _NOT_COUNTED or (verb.upper() == "EVALSHA" and _is_look_at_queues(words)):
        return False
    return not any(by_the_clock in command for by_the_clock in (HEARTBEAT, f" {SWEEPER} ", TELLER))


def _is_look_at_queues(words: Sequence[str]) -> bool:
    """Whether a script has queues as its keys and no other arguments; `take.lua` has other arguments."""
    return words[2:3] != [] and words[2].startswith("chorale.") and len(words) == 2 + int(words[1])


def count_commands(client: Redis, work: Callable[[], object]) -> Counter[str]:
    """The number of counted commands by verb while `work` runs.  `work` returns when its audit rows are written."""
    counts: Counter[str] = Counter()
    listening = threading.Event()

    def listen() -> None:
        with client.monitor() as monitor:
            listening.set()
            for entry in monitor.listen():
                if _END in str(entry["command"]):
                    return
                if is_counted(entry):
                    counts[str(entry["command"]).partition(" ")[0].upper()] += 1

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    listening.wait(AUDIT_LIMIT_S)
    work()
    client.echo(_END)
    listener.join(AUDIT_LIMIT_S)
    return counts


def operations_and_bytes(client: Redis) -> tuple[int, int]:
    """Commands that the server has run, including those inside scripts, and bytes that it has received and sent."""
    info: dict[str, Any] = client.info("all")
    operations = sum(statistics["calls"] for name, statistics in info.items() if name.startswith("cmdstat_"))
    return operations, info["total_net_input_bytes"] + info["total_net_output_bytes"]


def audit_rows(url: str) -> tuple[int, int]:
    """Requests and rows of all kinds in the audit tables."""
    with open_database(url, must_exist=True).connect() as connection:
        counts = {
            table.name: connection.scalar(select(func.count()).select_from(table)) or 0
            for table in AuditTable.metadata.sorted_tables
        }
    return counts[RequestRow.__tablename__], sum(counts.values())


def bytes_held(client: Redis) -> int:
    """Bytes of all keys, by MEMORY USAGE with every element sampled."""
    keys = list(client.scan_iter(count=1_000))
    sizes = (client.memory_usage(key, samples=0) for key in keys)
    return sum(size or 0 for size in sizes)


def wait_for_audit(client: Redis) -> None:
    """Wait until every ended request is in the audit tables; raises ServiceError if no drainer runs."""
    until = time.monotonic() + AUDIT_LIMIT_S
    while client.xlen(OUTBOX):
        if time.monotonic() > until:
            raise ServiceError(
                f"the outbox was not empty after {AUDIT_LIMIT_S:.0f} s: does a sweeper drain it?"
            )
        time.sleep(0.02)


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
    timings = {(variant.name, in_flight): Timing() for in_flight in questions for variant in variants}
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
    left, rows_seen, number = 0, [], itertools.count()
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
        commands = count_commands(client, work)
        if not by_verb:
            by_verb = {verb: round(times / count, 2) for verb, times in commands.most_common()}
            left = round((_settled_bytes(client) - before) / count)
        begun = operations_and_bytes(client)
        work()
        operations, moved = (
            after - earlier for after, earlier in zip(operations_and_bytes(client), begun, strict=True)
        )
        rows_seen.append(
            {
                "in_flight": in_flight,
                "commands": round(commands.total() / count, 2),
                "operations": round(operations / count, 1),
                "bytes_moved": round(moved / count),
            }
        )
    more_requests, more_rows = audit_rows(audit_url)
    each = round((more_rows - rows) / (more_requests - requests), 1)
    return {
        "redis_commands_per_request": rows_seen[0]["commands"],
        "redis_commands_by_verb": by_verb,
        "redis_bytes_left_per_request": left,
        "audit_rows_per_request": each,
        "redis_at": rows_seen,
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
    rows = []
    for stage, spans in lines.items():
        starts = [start for start, _ in spans if start is not None]
        rows.append(
            {
                "stage": stage,
                "start_ms": round(median(starts), 2) if starts else None,
                "ms": round(median(ms for _, ms in spans), 2),
            }
        )
    return rows
