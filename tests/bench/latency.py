"""What a request costs Redis and the audit tables, and where its time goes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

from chorale_client.answer import Answer
from chorale_client.keys import OUTBOX
from redis import Redis
from sqlalchemy import func, select

from models.errors import ServiceError
from models.tables.audit import AuditTable, RequestRow
from records.database import open_database
from tests.bench.timing import Ask, Timing, drive

AUDIT_LIMIT_S = 30.0
COUNTED_REQUESTS = 100
COUNTED_IN_FLIGHT = (1, 16)
SETTLED_S = 5.0
"""Wait after the audit's commit: the keys that are left then stay until they expire."""


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


def used_bytes(client: Redis) -> int:
    """Bytes of all keys after SETTLED_S, by MEMORY USAGE with every element sampled."""
    time.sleep(SETTLED_S)
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


def redis_cost(client: Redis, ask: Ask, questions: Sequence[str], *, audit_url: str) -> dict[str, Any]:
    """What one request that `ask` makes costs Redis and the audit trail, on average; raises ServiceError if no drainer runs.

    `redis_at` has for each number in flight all operations, with those inside scripts and those that processes send at
    fixed intervals, and bytes moved.
    """
    number = itertools.count()

    def work(in_flight: int) -> int:
        """Returns the number of requests: each thread asks once before the others."""
        turn = next(number)  # other texts each time, so that no worker knows their vectors
        drive(ask, [f"{text} {turn}" for text in questions], in_flight=in_flight, timing=Timing())
        wait_for_audit(client)
        return len(questions) + in_flight

    wait_for_audit(client)
    requests, rows = audit_rows(audit_url)
    before = used_bytes(client)
    count = work(1)
    remaining_bytes = round((used_bytes(client) - before) / count)
    costs = []
    for in_flight in COUNTED_IN_FLIGHT:
        begun = operations_and_bytes(client)
        count = work(in_flight)
        ended = operations_and_bytes(client)
        operations, moved = (
            round((after - earlier) / count, 1) for after, earlier in zip(ended, begun, strict=True)
        )
        costs.append({"in_flight": in_flight, "operations": operations, "bytes_moved": round(moved)})
    more_requests, more_rows = audit_rows(audit_url)
    return {
        "redis_bytes_left_per_request": remaining_bytes,
        "audit_rows_per_request": round((more_rows - rows) / (more_requests - requests), 1),
        "redis_at": costs,
    }


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
        start_ms = round(median(starts), 2) if starts else None
        rows.append({"stage": stage, "start_ms": start_ms, "ms": round(median(ms for _, ms in spans), 2)})
    return rows
