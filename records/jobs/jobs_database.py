"""The database of bulk jobs, and the changes that every part of the store makes to the row of a job.

Every change is one short transaction whose first statement writes, so that SQLite waits for its lock instead of failing.
Moments are milliseconds by the Redis server's clock, which the caller reads.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from copy import copy
from typing import Any, Self

from sqlalchemy import ColumnElement, Connection, Engine, and_, inspect, not_, or_, select, true, update

from models.tables.installation import job_table as jobs
from records.database import available, open_database
from records.jobs.job import COUNTED, Job, JobsUnavailable, NoSuchJob, Outcome, State, WrongState
from records.jobs.segment_rows import keep_earlier

OWNED = "t."
"""The ids of an owner's jobs begin so (`chorale_client.tenants`)."""
_ALL: ColumnElement[bool] = true()


class JobsDatabase:
    """The connections of `Jobs`, whose errors become JobsUnavailable."""

    _visible = _ALL

    def __init__(self, url: str) -> None:
        self._engine: Engine = open_database(url, must_exist=True)

    def limited_to(self, owner: str, namespaces: Collection[str] | None, *, with_unowned: bool) -> Self:
        """The same store, for which no other jobs exist than those whose ids begin with `owner`, in these namespaces.

        None: in all namespaces.  `with_unowned` adds the jobs of the command line and of the Python client.
        """
        theirs = jobs.c.job_id.startswith(owner, autoescape=True)
        if with_unowned:
            theirs = or_(theirs, not_(jobs.c.job_id.startswith(OWNED)))
        limited = copy(self)
        limited._visible = theirs if namespaces is None else and_(theirs, jobs.c.namespace.in_(namespaces))
        return limited

    def close(self) -> None:
        self._engine.dispose()

    def has_tables(self) -> bool:
        """Whether the database has the tables of this version; `records.database.upgrade` makes them."""
        with self._reading() as connection:
            return bool(inspect(connection).has_table(jobs.name))

    def _touch(self, connection: Connection, job_id: str, states: Sequence[str], **values: Any) -> Job:
        """Change a job that is in one of these states; raises NoSuchJob and WrongState."""
        changed = connection.execute(
            update(jobs)
            .where(jobs.c.job_id == job_id, jobs.c.state.in_(states), self._visible)
            .values(**values)
        )
        job = job_of(connection, job_id, self._visible)
        if changed.rowcount:
            return job
        raise WrongState(f"job {job_id!r} is {job.state}; this is possible while it is {' or '.join(states)}")

    def _reading(self) -> AbstractContextManager[Connection]:
        return available(self._engine.connect, JobsUnavailable, "jobs")

    def _writing(self) -> AbstractContextManager[Connection]:
        return available(self._engine.begin, JobsUnavailable, "jobs")


def job_of(connection: Connection, job_id: str, visible: ColumnElement[bool] = _ALL) -> Job:
    """Raises NoSuchJob."""
    row = connection.execute(select(jobs).where(jobs.c.job_id == job_id, visible)).mappings().first()
    if row is None:
        raise no_job(job_id)
    return Job(**row)


def no_job(job_id: str) -> NoSuchJob:
    return NoSuchJob(f"no job {job_id!r}; `chorale jobs list` shows the jobs")


def end_job(connection: Connection, job_id: str, outcome: Outcome, now_ms: int) -> None:
    keep_earlier(connection, job_id)
    rest = jobs.c.total - sum((jobs.c[name] for name in COUNTED), start=0)
    column = jobs.c.expired if outcome == Outcome.EXPIRED else jobs.c.cancelled
    connection.execute(
        update(jobs)
        .where(jobs.c.job_id == job_id)
        .values(
            state=State.ENDED,
            outcome=outcome,
            ended_at_ms=now_ms,
            rate_1m=None,
            **{column.name: column + rest},
        )
    )
