"""Measures what requests cost Redis (commands that clients send, bytes that stay) and the audit tables (rows)."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chorale_client.keys import HEARTBEAT, OUTBOX, SWEEPER, TELLER
from redis import Redis
from sqlalchemy import func, select

from audit.database import open_database
from models.audit_tables import AuditTable, RequestRow
from models.errors import ServiceError

AUDIT_LIMIT_S = 30.0
_END = "the measured requests have ended"
_NOT_COUNTED = frozenset(
    # Commands that workers send without any request, and those of the measurement itself.
    {"BRPOP", "TIME", "PING", "HELLO", "XLEN", "XREAD", "ECHO", "MONITOR"}
)


def is_counted(seen: Mapping[str, Any]) -> bool:
    """Whether a line of MONITOR is a command that a client sent for a request (see docs/evidence/measurements.md).

    A script counts as one command, EVALSHA; the commands inside it do not count.  What processes send at fixed intervals does
    not count either, since a slow machine sees more of it for each request: heartbeats, the sweeper's looks at the ledger and
    at the queues, and the lease of the process that tells of ends.
    """
    if seen["client_type"] == "lua":
        return False
    command = str(seen["command"])
    verb, *words = command.split(" ")
    if verb.upper() in _NOT_COUNTED or (verb.upper() == "EVALSHA" and _is_look_at_queues(words)):
        return False
    return not any(by_the_clock in command for by_the_clock in (HEARTBEAT, f" {SWEEPER} ", TELLER))


def _is_look_at_queues(words: Sequence[str]) -> bool:
    """Whether a script has queues as its keys and no other arguments; `take.lua` has other arguments."""
    return words[2:3] != [] and words[2].startswith("chorale.") and len(words) == 2 + int(words[1])


def count_commands(client: Redis, work: Callable[[], object]) -> Counter[str]:
    """The number of counted commands by verb while `work` runs.  `work` returns when its audit rows are written."""
    found: Counter[str] = Counter()
    listening = threading.Event()

    def listen() -> None:
        with client.monitor() as monitor:
            listening.set()
            for seen in monitor.listen():
                if _END in str(seen["command"]):
                    return
                if is_counted(seen):
                    found[str(seen["command"]).partition(" ")[0].upper()] += 1

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    listening.wait(AUDIT_LIMIT_S)
    work()
    client.echo(_END)
    listener.join(AUDIT_LIMIT_S)
    return found


def operations_and_bytes(client: Redis) -> tuple[int, int]:
    """Commands that the server has run, including those inside scripts, and bytes that it has received and sent."""
    found: dict[str, Any] = client.info("all")
    operations = sum(one["calls"] for name, one in found.items() if name.startswith("cmdstat_"))
    return operations, found["total_net_input_bytes"] + found["total_net_output_bytes"]


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
