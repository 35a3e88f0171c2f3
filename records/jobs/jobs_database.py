"""The database of bulk jobs, and the changes that every part of the store makes to the row of a job.

Every change is one short transaction whose first statement writes, so that SQLite waits for its lock instead of failing.
Moments are milliseconds by the Redis server's clock, which the caller reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, inspect, select, update
from sqlalchemy.exc import SQLAlchemyError

from models.installation_tables import job_table as jobs
from records.database import open_database
from records.jobs.job import COUNTED, Job, JobsUnavailable, NoSuchJob, Outcome, State, WrongState
from records.jobs.segment_rows import keep_earlier


class JobsDatabase:
    """The connections of `Jobs`, whose errors become JobsUnavailable."""

    def __init__(self, url: str) -> None:
        self._engine: Engine = open_database(url, must_exist=True)

    def close(self) -> None:
        self._engine.dispose()

    def has_tables(self) -> bool:
        """Whether the database has the tables of this version; `records.database.upgrade` makes them."""
        with self._reading() as connection:
            return bool(inspect(connection).has_table(jobs.name))

    def _touch(self, connection: Connection, job_id: str, states: Sequence[str], **values: Any) -> None:
        """Change a job that is in one of these states; raises NoSuchJob and WrongState."""
        changed = connection.execute(
            update(jobs).where(jobs.c.job_id == job_id, jobs.c.state.in_(states)).values(**values)
        )
        if changed.rowcount:
            return
        state = job_of(connection, job_id).state
        raise WrongState(f"job {job_id!r} is {state}; this is possible while it is {' or '.join(states)}")

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with _translated(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with _translated(), self._engine.begin() as connection:
            yield connection


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or error).partition("\n")[0]
        raise JobsUnavailable(f"the database of the jobs cannot be used: {reason[:500]}") from error


def job_of(connection: Connection, job_id: str) -> Job:
    """Raises NoSuchJob."""
    row = connection.execute(select(jobs).where(jobs.c.job_id == job_id)).mappings().first()
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
