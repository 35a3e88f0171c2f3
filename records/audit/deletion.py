"""Deletes requests: from the outbox, from the audit tables (old ones, or those of a person or namespace), and their traces.

Delete from the outbox first, then call `wait_for_drainers`, then delete from the tables.  Nothing comes in later, because a
drainer checks before it commits that its entries are still in the outbox.  Traces are answers in Redis, and the texts in
write-ahead logs until these are rewritten.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import redis
from chorale_client.keys import CALLBACKS, OUTBOX, entry_key, result_key
from pydantic_core import to_json
from sqlalchemy import ColumnElement, Connection, Engine, delete, func, select, tuple_
from sqlalchemy.exc import SQLAlchemyError

from models.batching import in_batches
from models.duty import Duty
from models.shadow_ids import shadow_id
from models.tables.audit import AuditTable, RequestRow
from models.tables.installation import feedback_table
from records.audit.months import drop_months
from records.audit.outbox import UNREADABLE, named, request_of
from records.audit.rows import column_of

ROWS_AT_ONCE = 500
"""Requests in one transaction; drainers can write between two transactions."""

# Waits for transactions that have written, and keeps new ones from writing.
WAIT = {"sqlite": "BEGIN IMMEDIATE", "postgresql": "LOCK TABLE ONLY chorale_request IN SHARE MODE"}


def older_than(before_ms: int) -> ColumnElement[bool]:
    """Requests that were accepted before this time in milliseconds since 1970."""
    return RequestRow.accepted_at_ms < before_ms


def requests_of(column: str, value: str) -> ColumnElement[bool]:
    """Requests whose `column` (request_id, correlation_id, namespace) has this value; that of an id with its shadow."""
    return RequestRow.__table__.c[column].in_(_values(column, value))


def _values(column: str, value: str) -> tuple[str, ...]:
    # A shadow has the namespace and the correlation id of its request.
    return (value, shadow_id(value)) if column == "request_id" else (value,)


def count_matching(engine: Engine, which: ColumnElement[bool]) -> int:
    with engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(RequestRow).where(which)) or 0


def wait_for_drainers(engine: Engine) -> None:
    """Wait until all rows that drainers have written are committed; raises SQLAlchemyError if that takes too long."""
    with engine.begin() as connection:
        connection.exec_driver_sql(WAIT[engine.dialect.name])


def remove_rows(engine: Engine, which: ColumnElement[bool]) -> int:
    """Delete these requests with their questions, branches, hits and feedback; returns how many there were.

    If the process is killed, only whole requests have been deleted; call again to continue.
    """
    removed = 0
    while some := remove_some_rows(engine, which):
        removed += some
    return removed


def remove_older(engine: Engine, before_ms: int) -> int:
    """Delete requests that were accepted before this time, whole months at once on PostgreSQL; returns how many there were."""
    return drop_months(engine, before_ms) + remove_rows(engine, older_than(before_ms))


def remove_some_rows(engine: Engine, which: ColumnElement[bool]) -> int:
    """Delete at most AT_ONCE of these requests in one transaction; returns how many there were."""
    key = (RequestRow.request_id, RequestRow.accepted_at_ms)
    with engine.begin() as connection:
        keys = [tuple(row) for row in connection.execute(select(*key).where(which).limit(ROWS_AT_ONCE))]
        if keys:
            for table in AuditTable.metadata.tables.values():
                matching = tuple_(table.c.request_id, table.c.accepted_at_ms).in_(keys)
                connection.execute(delete(table).where(matching))
            # After the requests: whoever writes feedback holds its request until the feedback is committed.
            matching = feedback_table.c.request_id.in_({request_id for request_id, _ in keys})
            connection.execute(delete(feedback_table).where(matching))
    return len(keys)


@contextmanager
def keeping_rows(engine: Engine) -> Iterator[Connection]:
    """A transaction in which `keep_rows` may be called; it holds SQLite's write lock."""
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        yield connection


def keep_rows(connection: Connection, request_ids: Collection[str]) -> set[str]:
    """Which of these requests the trail has: nobody deletes them before this transaction has ended."""
    ids = select(RequestRow.request_id).where(RequestRow.request_id.in_(request_ids))
    return {*connection.scalars(ids.with_for_update(read=True, key_share=True))}


PRUNE_EVERY_S = 3_600.0
PAUSE_S = 0.05
"""Between two transactions, so that drainers can write."""


class Retention(Duty):
    """Keeps requests for `keep_s` seconds; several may run at once.  `run` calls `prepare` before each tick."""

    failing = "audit: old requests cannot be deleted"
    expected = (*Duty.expected, SQLAlchemyError)

    def __init__(self, engine: Engine, *, keep_s: float, prepare: Callable[[], None] = lambda: None) -> None:
        self._engine = engine
        self._keep_s = keep_s
        self._prepare = prepare

    def tick(self) -> float:
        """Every hour, or more often for a short time."""
        self._prepare()
        is_more = self.prune_once() == ROWS_AT_ONCE
        return PAUSE_S if is_more else self._every_s

    def pause_s(self, failures: int) -> float:
        return self._every_s

    @property
    def _every_s(self) -> float:
        return min(PRUNE_EVERY_S, self._keep_s / 10)

    def prune_once(self) -> int:
        """Drop old months, and delete other old requests in one transaction; returns how many others, at most `ROWS_AT_ONCE`."""
        before_ms = max(0, time.time_ns() // 1_000_000 - round(self._keep_s * 1_000))
        drop_months(self._engine, before_ms)
        return remove_some_rows(self._engine, older_than(before_ms))


PAGE = 64
"""Entries that are read together; an entry of a large bulk request can have megabytes."""

STREAMS = (OUTBOX, UNREADABLE)
"""An entry can move only from the first to the second."""


def count_waiting(client: redis.Redis, column: str, value: str) -> int:
    """Number of entries of requests whose `column` (request_id, correlation_id, namespace) has this value."""
    return sum(1 for _ in _entries(client, column, value))


def erase_waiting(client: redis.Redis, column: str, value: str) -> int:
    """Delete these entries, and the callbacks of these requests that wait; returns how many entries there were."""
    for stream, entry in _entries(client, column, value, CALLBACKS):
        client.xdel(stream, entry)
    return sum(client.xdel(stream, entry) for stream, entry in _entries(client, column, value))


def matches(fields: Mapping[bytes, bytes], column: str, value: str) -> bool:
    """Whether the entry belongs to such a request.  An unreadable entry does if it contains the value anywhere."""
    try:
        entry = named(fields)
        if column == "request_id":
            return entry["id"] in [each.encode() for each in _values(column, value)]
        return column_of(request_of(entry), column) == value
    except (ValueError, KeyError, TypeError, AttributeError):
        spellings = value.encode(), to_json(value)[1:-1]
        return any(spelling in raw for raw in fields.values() for spelling in spellings)


def _entries(client: redis.Redis, column: str, value: str, *streams: str) -> Iterator[tuple[str, Any]]:
    for stream in streams or STREAMS:
        after = "-"
        while page := cast("list[tuple[bytes, Any]]", client.xrange(stream, min=after, count=PAGE)):
            for entry, fields in page:
                if matches(fields, column, value):
                    yield stream, entry
            after = f"({page[-1][0].decode()}"


REWRITE_LIMIT_S = 60.0
CHECKPOINT_LIMIT_S = 10.0
TICK_EVERY_S = 0.1
ANSWERS_AT_ONCE = 1_000


def ids_of(engine: Engine, which: ColumnElement[bool]) -> list[str]:
    """The ids of these requests in the trail."""
    with engine.connect() as connection:
        return list(connection.scalars(select(RequestRow.request_id).where(which).distinct()))


def count_running_shadows(client: redis.Redis, request_ids: Iterable[str]) -> int:
    """Number of shadows of these requests that enter the trail when they end."""
    batches = in_batches(map(entry_key, map(shadow_id, request_ids)), ANSWERS_AT_ONCE)
    counts: list[int] = [client.exists(*some) for some in batches]
    return sum(counts)


def forget_answers(client: redis.Redis, request_ids: Iterable[str]) -> bool:
    """Delete the answers that Redis keeps for callers, and let it write its append-only file anew.

    The file has every deleted value until then.  Returns whether the file is new; true also where Redis keeps none.  Raises
    RedisError.
    """
    for some in in_batches(request_ids, ANSWERS_AT_ONCE):
        client.delete(*map(result_key, some))
    if not _persistence(client)["aof_enabled"]:
        return True
    client.bgrewriteaof()
    give_up_s = time.monotonic() + REWRITE_LIMIT_S
    while time.monotonic() < give_up_s:
        state = _persistence(client)
        if not (state["aof_rewrite_in_progress"] or state["aof_rewrite_scheduled"]):
            return bool(state["aof_last_bgrewrite_status"] == "ok")
        time.sleep(TICK_EVERY_S)
    return False


def _persistence(client: redis.Redis) -> dict[str, Any]:
    return client.info("persistence")


def checkpoint(engine: Engine) -> bool:
    """Empty the write-ahead log of a SQLite database; whether that succeeded.

    A process that reads for long prevents it.  PostgreSQL recycles its log by itself.
    """
    if engine.dialect.name != "sqlite":
        return True
    give_up_s = time.monotonic() + CHECKPOINT_LIMIT_S
    while True:
        with engine.connect() as connection:
            is_busy = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").scalar_one()
        if not is_busy or time.monotonic() > give_up_s:
            return not is_busy
        time.sleep(TICK_EVERY_S)
