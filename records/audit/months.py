"""The months of the audit tables on PostgreSQL: adds them before they begin, and drops them when they are old.

Each audit table has a partition for each month (UTC) of `accepted_at_ms`: `chorale_hit_2026_11` has the hits of the requests that were accepted in
November 2026.  The default partition `chorale_hit_other` has the rows of moments without a month: the clock was wrong, or the login may not create
tables.  SQLite has no partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Connection, Engine, and_, func, select, text
from sqlalchemy.exc import SQLAlchemyError

from models.duty import Duty
from models.tables.audit import AuditTable, RequestRow
from models.tables.installation import feedback_table

TABLES = tuple(AuditTable.metadata.tables)
REQUESTS = RequestRow.__tablename__

_PARTITIONS = text(
    r"SELECT relname, pg_has_role(relowner, 'USAGE') FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid "
    r"WHERE inhparent = ANY (CAST(:tables AS regclass[])) AND relname ~ '_\d{4}_\d{2}$'"
).bindparams(tables=list(TABLES))

ADD_EVERY_S = 3_600.0

log = logging.getLogger(__name__)


def add_months(engine: Engine, now: datetime | None = None) -> None:
    """Add this month and the next one, if they are missing; any number of processes may do so at once.

    A month stays in the default partition once that partition has rows of the month.  Raises SQLAlchemyError, for example if the login may not create tables.
    """
    if engine.dialect.name != "postgresql":
        return
    this = f"{now or datetime.now(UTC):%Y_%m}"
    months = this, f"{_end(this):%Y_%m}"
    with engine.connect() as connection:
        if not _missing(connection, months):
            return
    with _alone(engine) as connection:
        for month in _missing(connection, months):
            bounds = f"FROM ({_ms(_start(month))}) TO ({_ms(_end(month))})"
            for table in TABLES:
                connection.exec_driver_sql(
                    f"CREATE TABLE {table}_{month} PARTITION OF {table} FOR VALUES {bounds}"
                )


def _missing(connection: Connection, months: Sequence[str]) -> list[str]:
    there = _partitions(connection)
    a_row = select(RequestRow.request_id).limit(1)
    without = [month for month in months if f"{REQUESTS}_{month}" not in there]
    return [month for month in without if connection.scalar(a_row.where(_within(month))) is None]


def drop_months(engine: Engine, before_ms: int) -> int:
    """Drop the months that ended before this time, with the feedback on their hits; returns how many requests they had.

    Months that the login does not own stay.  Raises SQLAlchemyError, for example if somebody reads the tables for too long.
    """
    if engine.dialect.name != "postgresql":
        return 0
    with engine.connect() as connection:
        owned = [name for name, is_owned in _partitions(connection).items() if is_owned]
    months = [name.removeprefix(f"{REQUESTS}_") for name in owned if name.startswith(REQUESTS)]
    return sum(_drop(engine, month) for month in sorted(months) if _ms(_end(month)) <= before_ms)


def _drop(engine: Engine, month: str) -> int:
    with engine.connect() as connection:
        requests = connection.scalar(select(func.count()).select_from(RequestRow).where(_within(month))) or 0
    with _alone(engine) as connection:
        there = _partitions(connection)
        names = [name for table in TABLES if (name := f"{table}_{month}") in there]
        if f"{REQUESTS}_{month}" not in names:
            return 0
        # Whoever writes feedback holds its request until the feedback is committed.
        connection.exec_driver_sql(
            f"DELETE FROM {feedback_table} WHERE request_id IN (SELECT request_id FROM {REQUESTS}_{month})"
        )
        connection.exec_driver_sql(f"DROP TABLE {', '.join(names)}")
    log.info("audit: the month %s with %d requests was dropped", month, requests)
    return requests


def _partitions(connection: Connection) -> dict[str, bool]:
    """The months of all tables by name, and whether the login owns them."""
    return {row[0]: row[1] for row in connection.execute(_PARTITIONS)}


@contextmanager
def _alone(engine: Engine) -> Iterator[Connection]:
    """A transaction beside no other one that has read or written a request.

    Nobody opens another audit table before that of the requests and then waits for this one, so there is no deadlock.
    """
    with engine.begin() as connection:
        connection.exec_driver_sql(f"LOCK TABLE ONLY {REQUESTS} IN ACCESS EXCLUSIVE MODE")
        yield connection


def _within(month: str) -> ColumnElement[bool]:
    accepted = RequestRow.accepted_at_ms
    return and_(accepted >= _ms(_start(month)), accepted < _ms(_end(month)))


def _start(month: str) -> datetime:
    return datetime.strptime(month, "%Y_%m").replace(tzinfo=UTC)


def _end(month: str) -> datetime:
    start = _start(month)
    return start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)


def _ms(at: datetime) -> int:
    return int(at.timestamp()) * 1_000


class MonthsAhead(Duty):
    """Adds months before they begin, so that their rows never lie in the default partition.  Several processes may do so at once.

    `run` calls `prepare` before each tick.
    """

    failing = "audit: a month cannot be added, and its rows go to the default partition"
    expected = (*Duty.expected, SQLAlchemyError)

    def __init__(self, engine: Engine, prepare: Callable[[], None] = lambda: None) -> None:
        self._engine = engine
        self._prepare = prepare

    def tick(self) -> float:
        self._prepare()
        add_months(self._engine)
        return ADD_EVERY_S

    def pause_s(self, failures: int) -> float:
        return ADD_EVERY_S
