"""Deletes requests from the audit tables: old ones, or those of a person or namespace."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Engine, delete, func, select, tuple_

from models.audit_tables import RequestRow

AT_ONCE = 500
"""Requests in one transaction; drainers can write between two transactions."""

# Waits for transactions that have written, and keeps new ones from writing.
WAIT = {"sqlite": "BEGIN IMMEDIATE", "postgresql": "LOCK TABLE chorale_request IN SHARE MODE"}


def older_than(before_ms: int) -> ColumnElement[bool]:
    """Requests that were accepted before this time in milliseconds since 1970."""
    return RequestRow.accepted_at_ms < before_ms


def requests_of(column: str, value: str) -> ColumnElement[bool]:
    """Requests whose `column` (request_id, correlation_id, namespace) has this value."""
    return RequestRow.__table__.c[column] == value


def count_matching(engine: Engine, which: ColumnElement[bool]) -> int:
    with engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(RequestRow).where(which)) or 0


def wait_for_drainers(engine: Engine) -> None:
    """Wait until all rows that drainers have written are committed; raises SQLAlchemyError if that takes too long."""
    with engine.begin() as connection:
        connection.exec_driver_sql(WAIT[engine.dialect.name])


def remove(engine: Engine, which: ColumnElement[bool]) -> int:
    """Delete these requests with their questions, branches and hits; returns how many there were.

    If the process is killed, only whole requests have been deleted; call again to continue.
    """
    removed = 0
    while some := remove_some(engine, which):
        removed += some
    return removed


def remove_some(engine: Engine, which: ColumnElement[bool]) -> int:
    """Delete at most AT_ONCE of these requests in one transaction; returns how many there were."""
    key = (RequestRow.request_id, RequestRow.accepted_at_ms)
    with engine.begin() as connection:
        found = [tuple(row) for row in connection.execute(select(*key).where(which).limit(AT_ONCE))]
        if found:
            connection.execute(delete(RequestRow).where(tuple_(*key).in_(found)))
    return len(found)
