"""Taking requests out of the audit trail: what is old, or what somebody wants forgotten."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Engine, delete, func, select, tuple_

from models.audit_tables import RequestRow

AT_ONCE = 500
"""Requests a transaction: the drainer writes between two of them."""

# Waits for whoever has written and not committed, and for the time it takes keeps others from beginning to.
WAIT = {"sqlite": "BEGIN IMMEDIATE", "postgresql": "LOCK TABLE chorale_request IN SHARE MODE"}


def older_than(before_ms: int) -> ColumnElement[bool]:
    """Requests that were accepted before this moment, milliseconds since 1970."""
    return RequestRow.accepted_at_ms < before_ms


def of(
    *, request_id: str | None = None, correlation_id: str | None = None, namespace: str | None = None
) -> ColumnElement[bool]:
    """Requests by the one field that is given."""
    if request_id is not None:
        return RequestRow.request_id == request_id
    if correlation_id is not None:
        return RequestRow.correlation_id == correlation_id
    return RequestRow.namespace == namespace


def matching(engine: Engine, which: ColumnElement[bool]) -> int:
    with engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(RequestRow).where(which)) or 0


def wait_for_drainers(engine: Engine) -> None:
    """Return when whatever a drainer had written is committed; raises SQLAlchemyError where that takes too long."""
    with engine.begin() as connection:
        connection.exec_driver_sql(WAIT[engine.dialect.name])


def remove(engine: Engine, which: ColumnElement[bool]) -> int:
    """Delete these requests with their questions, branches and hits; returns how many there were.

    One that is stopped on the way has removed whole requests, and goes on when it is called again.
    """
    key = (RequestRow.request_id, RequestRow.accepted_at_ms)
    removed = 0
    while True:
        with engine.begin() as connection:
            found = [tuple(row) for row in connection.execute(select(*key).where(which).limit(AT_ONCE))]
            if not found:
                return removed
            connection.execute(delete(RequestRow).where(tuple_(*key).in_(found)))
        removed += len(found)
