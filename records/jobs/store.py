"""Bulk jobs in SQL: their lines, their progress and their results.

The feeder's and the workers' part is in `records.jobs.segment_work`, the rules for transactions in `records.jobs.jobs_database`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, replace
from functools import partial
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    and_,
    case,
    delete,
    func,
    or_,
    select,
    update,
)

from models.tables.installation import job_table as jobs
from models.tables.installation import segment_table as segments
from records.database import insert_into
from records.jobs.job import COUNTED, Job, Line, NewJob, NoSuchJob, Outcome, State, WrongState
from records.jobs.jobs_database import end_job, job_of, no_job
from records.jobs.segment_rows import (
    add_counts,
    lines_of,
    packed,
    page,
    pages,
    reopen,
    reopen_answered,
    result_line,
    results_of,
    unanswered_status,
)
from records.jobs.segment_work import ACTIVE, SegmentWork


class Jobs(SegmentWork):
    """Thread-safe.  Every method raises JobsUnavailable if the database cannot be used."""

    # Submitting

    def create(self, new: NewJob, *, now_ms: int) -> bool:
        """Add a job in the state `validating`; returns False, and does nothing, if it is there already."""
        with self._writing() as connection:
            added = connection.execute(
                insert_into(connection, jobs)
                .values(
                    **{**asdict(new), "tenant": new.tenant or new.namespace},
                    state=State.VALIDATING,
                    reason="",
                    callback_sent=int(new.on_end is None),
                    created_at_ms=now_ms,
                    touched_at_ms=now_ms,
                    **dict.fromkeys(("segments", "total", "deduplicated", *COUNTED), 0),
                )
                .on_conflict_do_nothing()
            )
            return bool(added.rowcount)

    def add(self, job_id: str, numbered: Mapping[int, Sequence[Line]], *, now_ms: int) -> None:
        """Add segments by their numbers (from 0, without gaps) to a job in the state `validating`.  Adding one again does
        nothing."""
        refused = {number: sum(line.fields is None for line in lines) for number, lines in numbered.items()}
        rows = []
        for number, lines in numbered.items():
            unanswered_lines = len(lines) - refused[number]
            rows.append(
                {
                    "job_id": job_id,
                    "number": number,
                    "state": "waiting" if unanswered_lines else "done",
                    "open": unanswered_lines,
                    "lines": packed([[line.number, line.id, line.fields, line.error] for line in lines]),
                    **dict.fromkeys(("attempt", "tries", "again", "due_at_ms", "degraded", "failed"), 0),
                }
            )
        with self._writing() as connection:
            self._touch(connection, job_id, (State.VALIDATING,), touched_at_ms=now_ms)
            new = insert_into(connection, segments).values(rows).on_conflict_do_nothing()
            added = connection.execute(new.returning(segments.c.number)).scalars().all()
            add_counts(
                connection,
                job_id,
                segments=len(added),
                total=sum(len(numbered[number]) for number in added),
                refused=sum(refused[number] for number in added),
            )

    def begin(self, job_id: str, *, segments: int, now_ms: int) -> None:
        """All lines are there: the job waits for its turn.  Raises WrongState if a segment is missing."""
        with self._writing() as connection:
            self._touch(
                connection, job_id, (State.VALIDATING, State.QUEUED), touched_at_ms=now_ms, state=State.QUEUED
            )
            there = connection.scalar(select(jobs.c.segments).where(jobs.c.job_id == job_id))
            if there != segments:
                raise WrongState(f"job {job_id!r} has {there} of {segments} segments")

    def refuse(self, job_id: str, reason: str, *, now_ms: int) -> None:
        """End a job whose file cannot be used, as `failed`.  Deletes its lines, so that they cannot be retried."""
        nothing = dict.fromkeys(("segments", "total", *COUNTED), 0)
        with self._writing() as connection:
            self._touch(connection, job_id, (State.VALIDATING,), reason=reason[:2_000], **nothing)
            connection.execute(delete(segments).where(segments.c.job_id == job_id))
            end_job(connection, job_id, Outcome.FAILED, now_ms)

    # Looking

    def get(self, job_id: str) -> Job:
        """Raises NoSuchJob."""
        with self._reading() as connection:
            return job_of(connection, job_id, self._visible)

    def find(self, begins: str) -> Job:
        """The job whose id is `begins` or alone starts with it; raises NoSuchJob."""
        alike = select(jobs).where(jobs.c.job_id.startswith(begins, autoescape=True), self._visible)
        with self._reading() as connection:
            rows = (
                connection.execute(alike.order_by(jobs.c.job_id).limit(3)).mappings().all() if begins else ()
            )
        # The shortest id comes first: an id that another one starts with is found too.
        if not rows:
            raise no_job(begins)
        if len(rows) > 1 and rows[0]["job_id"] != begins:
            ids = ", ".join(row["job_id"] for row in rows)
            raise NoSuchJob(f"several ids begin with {begins!r}: {ids}; give more of the id")
        return Job(**rows[0])

    def last(self, count: int, *, after: tuple[int, str] | None = None) -> list[Job]:
        """The newest jobs, newest first; with `after` those that follow the job with this `created_at_ms` and id."""
        created, job_id = jobs.c.created_at_ms, jobs.c.job_id
        newest = select(jobs).where(self._visible).order_by(created.desc(), job_id).limit(count)
        if after is not None:
            newest = newest.where(or_(created < after[0], and_(created == after[0], job_id > after[1])))
        with self._reading() as connection:
            return [Job(**row) for row in connection.execute(newest).mappings()]

    def shares(self, most: int) -> list[dict[str, Any]]:
        """The tenants with the most running lines, and then the most waiting ones, in jobs that have not ended.  `share` is the part
        of all running lines; None if none runs."""
        running = func.sum(jobs.c.running)
        waiting = func.sum(jobs.c.total - sum(jobs.c[name] for name in COUNTED))
        columns = (jobs.c.tenant, func.max(jobs.c.weight), running, waiting, func.sum(running).over())
        by_tenant = select(*columns).where(jobs.c.state != State.ENDED).group_by(jobs.c.tenant)
        first = by_tenant.order_by(running.desc(), waiting.desc(), jobs.c.tenant).limit(most)
        with self._reading() as connection:
            rows = connection.execute(first).all()
        return [
            {
                "tenant": tenant,
                "weight": weight,
                "running": int(tenant_running),
                "waiting": int(tenant_waiting),
                "share": int(tenant_running) / int(all_running) if all_running else None,
            }
            for tenant, weight, tenant_running, tenant_waiting, all_running in rows
        ]

    def active(self, *, queued_per_tenant: int | None = None) -> list[Job]:
        """The jobs that have not ended or whose callback has not been sent, oldest first; with `queued_per_tenant` only so many
        queued jobs of each tenant, and none that is paused or validated."""
        unfinished = select(jobs).where(or_(jobs.c.state != State.ENDED, jobs.c.callback_sent == 0))
        if queued_per_tenant is not None:
            place = func.row_number().over(partition_by=jobs.c.tenant, order_by=jobs.c.created_at_ms)
            queued = (
                select(jobs.c.job_id, place.label("place")).where(jobs.c.state == State.QUEUED).subquery()
            )
            first = select(queued.c.job_id).where(queued.c.place <= queued_per_tenant)
            are_waiting = jobs.c.state.in_((State.QUEUED, State.PAUSED, State.VALIDATING))
            unfinished = unfinished.where(or_(~are_waiting, jobs.c.job_id.in_(first)))
        with self._reading() as connection:
            return [
                Job(**row) for row in connection.execute(unfinished.order_by(jobs.c.created_at_ms)).mappings()
            ]

    def results(self, job_id: str, *, after: int = 0) -> Iterator[dict[str, Any]]:
        """The result lines in input order from the line after number `after`, as far as they are there without a gap.

        A line that an ended job did not answer has the status `expired` or `cancelled`.  Raises NoSuchJob.
        """
        job = self.get(job_id)
        number = bisect_right(range(job.segments), after, key=partial(self._first_line, job_id)) - 2
        while True:
            with self._reading() as connection:
                rows = page(connection, job_id, number)
            for row in rows:
                if row["state"] in ("waiting", "sent") and job.state != State.ENDED:
                    return
                lines = lines_of(row["lines"])
                for line, result in zip(lines, results_of(row["results"], len(lines)), strict=True):
                    if line.number > after:
                        yield result_line(line, result, unanswered_status(row["state"], job.outcome))
                number = row["number"]
            if not rows:
                return

    def _first_line(self, job_id: str, number: int) -> int:
        with self._reading() as connection:
            segment = select(segments.c.lines).where(segments.c.job_id == job_id, segments.c.number == number)
            return lines_of(connection.execute(segment).scalar_one())[0].number

    # Steering

    def pause(self, job_id: str) -> Job:
        states = (State.QUEUED, State.RUNNING, State.PAUSED)
        with self._writing() as connection:
            return self._touch(connection, job_id, states, state=State.PAUSED, rate_1m=None)

    def resume(self, job_id: str) -> Job:
        state = case((jobs.c.state == State.PAUSED, State.QUEUED), else_=jobs.c.state)
        with self._writing() as connection:
            return self._touch(connection, job_id, (State.PAUSED, State.QUEUED, State.RUNNING), state=state)

    def cancel(self, job_id: str) -> Job:
        """Send no further segment; the job ends when the segments that were sent have their results."""
        with self._writing() as connection:
            return self._touch(connection, job_id, ACTIVE, state=State.CANCELLING)

    def retry(
        self, job_id: str, statuses: Sequence[str], *, now_ms: int, deadline_at_ms: int | None = None
    ) -> int:
        """Answer the lines of an ended job again whose status is one of RETRIED; returns how many.

        A segment that is answered again also answers its lines without a result.  Raises WrongState while the job runs, and
        if no line has such a status.
        """
        with self._writing() as connection:
            job = self._touch(connection, job_id, (State.ENDED,), touched_at_ms=now_ms)
            again = reopen(connection, job, is_wanted="expired" in statuses)
            if answered := [name for name in ("degraded", "failed") if name in statuses]:
                again += reopen_answered(connection, job_id, answered)
            deduplicated = again.pop("deduplicated", 0)
            if not again.total():
                raise WrongState(f"job {job_id!r} has no line that is {' or '.join(statuses)}")
            connection.execute(
                update(jobs)
                .where(jobs.c.job_id == job_id)
                .values(
                    state=State.QUEUED,
                    outcome=None,
                    reason="",
                    ended_at_ms=None,
                    deadline_at_ms=deadline_at_ms,
                    callback_sent=int(job.on_end is None),
                )
            )
            fewer = {name: -count for name, count in again.items()}
            add_counts(connection, job_id, deduplicated=-deduplicated, **fewer)
            return again.total()

    def old(self, *, before_ms: int) -> int:
        """How many jobs ended before this moment."""
        with self._reading() as connection:
            return connection.scalar(select(func.count()).where(_ended_before(before_ms))) or 0

    def prune(self, *, before_ms: int) -> int:
        """Delete jobs that ended before this moment; returns how many."""
        with self._writing() as connection:
            return _remove(connection, and_(_ended_before(before_ms), self._visible))

    def delete(self, job_id: str) -> None:
        """Delete an ended job with its lines and results.  Raises NoSuchJob, WrongState."""
        with self._writing() as connection:
            self._touch(connection, job_id, (State.ENDED,), rate_1m=None)
            _remove(connection, jobs.c.job_id == job_id)

    # Erasing, for `chorale audit erase`.  Jobs that have not ended keep their lines.

    def erase_namespace(self, namespace: str) -> int:
        """Delete the ended jobs of a namespace; returns how many lines they had."""
        which = and_(jobs.c.namespace == namespace, jobs.c.state == State.ENDED)
        with self._writing() as connection:
            lines = connection.scalar(select(func.sum(jobs.c.total)).where(which)) or 0
            _remove(connection, which)
            return lines

    def unended(self, namespace: str | None = None) -> int:
        """How many jobs (of a namespace) have not ended, and so keep their lines."""
        which = jobs.c.state != State.ENDED
        if namespace is not None:
            which = and_(which, jobs.c.namespace == namespace)
        with self._reading() as connection:
            return connection.scalar(select(func.count()).where(which)) or 0

    def erase_lines(self, correlation_id: str) -> int:
        """Erase question and hits of each line with this correlation id; returns how many lines there were."""
        with self._reading() as connection:
            ended = connection.scalars(select(jobs.c.job_id).where(jobs.c.state == State.ENDED)).all()
        erased = 0
        for job_id in ended:
            with self._writing() as connection:
                erased += sum(_erase(connection, row, correlation_id) for row in pages(connection, job_id))
        return erased


def _remove(connection: Connection, which: ColumnElement[bool]) -> int:
    """Delete these jobs with their lines and results; returns how many there were."""
    ids = select(jobs.c.job_id).where(which)
    connection.execute(delete(segments).where(segments.c.job_id.in_(ids)))
    return connection.execute(delete(jobs).where(which)).rowcount


def _ended_before(moment_ms: int) -> ColumnElement[bool]:
    return and_(jobs.c.state == State.ENDED, jobs.c.ended_at_ms < moment_ms)


ERASED = "(erased)"
_WITHOUT_TEXTS = frozenset({"status", "coverage", "deduplicated"})
"""What is kept of the result of an erased line, so that the counts of its job stay right."""


def _erase(connection: Connection, row: RowMapping, correlation_id: str) -> int:
    lines = lines_of(row["lines"])
    places = [
        place
        for place, line in enumerate(lines)
        if (line.fields or {}).get("correlation_id") == correlation_id
    ]
    if not places:
        return 0
    results = results_of(row["results"], len(lines))
    for place in places:
        lines[place] = replace(lines[place], fields={"questions": [{"text": ERASED}]})
        if (result := results[place]) is not None:
            retained = {name: result[name] for name in result.keys() & _WITHOUT_TEXTS}
            results[place] = {**retained, "hits": [], "degraded": [], "warnings": [], "error": ERASED}
    ours = and_(segments.c.job_id == row["job_id"], segments.c.number == row["number"])
    values = {"lines": packed([astuple(line) for line in lines]), "results": packed(results)}
    connection.execute(update(segments).where(ours).values(**values))
    return len(places)
