"""The store of bulk jobs as the feeder and the workers use it: segments are sent, taken, renewed and written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, func, select, update

from models.tables.installation import job_table as jobs
from models.tables.installation import segment_table as segments
from records.jobs.job import COUNTED, Line, Outcome, Segment, State
from records.jobs.jobs_database import JobsDatabase, end_job, job_of
from records.jobs.segment_rows import add_counts, lines_of, packed, places_of, results_of


class Sent(NamedTuple):
    """A segment that was sent to the workers."""

    number: int
    attempt: int
    lines: Sequence[Line]


ACTIVE = (State.VALIDATING, State.QUEUED, State.RUNNING, State.PAUSED, State.CANCELLING)


class SegmentWork(JobsDatabase):
    """The methods of `Jobs` that the feeder and the workers call."""

    # Feeding

    def lapse(self, job_id: str, *, now_ms: int) -> int:
        """Segments whose worker has not renewed its lease wait again; returns how many."""
        late = and_(segments.c.job_id == job_id, segments.c.state == "sent", segments.c.due_at_ms < now_ms)
        with self._writing() as connection:
            lapse = update(segments).where(late).values(state="waiting", due_at_ms=0)
            lapsed = connection.execute(lapse.returning(segments.c.open)).scalars().all()
            add_counts(connection, job_id, running=-sum(lapsed))
            return len(lapsed)

    def sent(self) -> set[tuple[str, int, int]]:
        """The segments of all jobs that workers have or will get: job, number and attempt."""
        there = select(jobs.c.job_id).where(jobs.c.state != State.ENDED)
        columns = (segments.c.job_id, segments.c.number, segments.c.attempt)
        chosen = select(*columns).where(segments.c.job_id.in_(there), segments.c.state == "sent")
        with self._reading() as connection:
            return {(job_id, number, attempt) for job_id, number, attempt in connection.execute(chosen)}

    def send(self, job_id: str, *, now_ms: int, lease_ms: int) -> Sent | None:
        """Mark the job's next segment as sent, and return it; None if none waits or the job may not run."""
        waiting = (
            select(segments.c.number)
            .where(segments.c.job_id == job_id, segments.c.state == "waiting", segments.c.due_at_ms <= now_ms)
            .order_by(segments.c.number)
            .limit(1)
            .scalar_subquery()
        )
        with self._writing() as connection:
            # First the job: another feeder may have ended it, and its unanswered segments still say `waiting`.
            is_fed = connection.execute(
                update(jobs)
                .where(jobs.c.job_id == job_id, jobs.c.state.in_((State.QUEUED, State.RUNNING)))
                .values(state=State.RUNNING, started_at_ms=func.coalesce(jobs.c.started_at_ms, now_ms))
            ).rowcount
            sent = connection.execute(
                update(segments)
                .where(
                    segments.c.job_id == job_id, segments.c.number == waiting, segments.c.state == "waiting"
                )
                .values(state="sent", attempt=segments.c.attempt + 1, due_at_ms=now_ms + lease_ms)
                .returning(segments.c.number, segments.c.attempt, segments.c.open, segments.c.lines)
            ).first()
            if not is_fed or sent is None:
                connection.rollback()
                return None
            add_counts(connection, job_id, running=sent.open)
            return Sent(sent.number, sent.attempt, lines_of(sent.lines))

    def end(self, job_id: str, outcome: Outcome, *, now_ms: int, reason: str = "") -> bool:
        """End a job.  Does nothing and returns False if a segment is sent, or if the outcome is `completed` and lines wait.

        Lines without a result become `expired` or `cancelled`.
        """
        with self._writing() as connection:
            self._touch(connection, job_id, ACTIVE, reason=reason)
            job = job_of(connection, job_id)
            if job.running or (outcome == Outcome.COMPLETED and job.counts["pending"]):
                connection.rollback()
                return False
            end_job(connection, job_id, outcome, now_ms)
            return True

    def note_rate(self, job_id: str, rate_1m: float | None) -> None:
        with self._writing() as connection:
            connection.execute(update(jobs).where(jobs.c.job_id == job_id).values(rate_1m=rate_1m))

    def note_callback_sent(self, job_id: str, *, ended_at_ms: int | None) -> None:
        """Note that the callback of the end at `ended_at_ms` was sent.  The end of a later retry has a callback of its own."""
        this_end = and_(jobs.c.job_id == job_id, jobs.c.ended_at_ms == ended_at_ms)
        with self._writing() as connection:
            connection.execute(update(jobs).where(this_end).values(callback_sent=1))

    # Answering

    def take(self, job_id: str, number: int, attempt: int, *, now_ms: int, lease_ms: int) -> Segment | None:
        """Begin a segment; None if this attempt counts no more."""
        with self._writing() as connection:
            begin = update(segments).where(_attempt(job_id, number, attempt))
            begin = begin.values(tries=segments.c.tries + 1, due_at_ms=now_ms + lease_ms)
            row = connection.execute(begin.returning(segments)).mappings().first()
            if row is None:
                return None
            job = job_of(connection, job_id)
        lines = lines_of(row["lines"])
        return Segment(
            job_id,
            number,
            attempt,
            row["tries"],
            row["again"],
            lines,
            results_of(row["results"], len(lines)),
            places_of(lines) if row["left"] is None else row["left"],
            row["suspect"],
            job.namespace,
            job.done,
        )

    def renew(self, segment: Segment, *, now_ms: int, lease_ms: int) -> bool:
        """Keep the segment; returns whether this attempt still counts."""
        with self._writing() as connection:
            ours = _attempt(segment.job_id, segment.number, segment.attempt)
            renewed = connection.execute(update(segments).where(ours).values(due_at_ms=now_ms + lease_ms))
            return bool(renewed.rowcount)

    def write(
        self,
        segment: Segment,
        results: Mapping[int, Mapping[str, Any]],
        *,
        remaining: Sequence[int] = (),
        suspect: int | None = None,
        again_at_ms: int | None = None,
    ) -> Segment | None:
        """Store results by the places of their lines; returns the segment with them, None if this attempt counts no more
        or another delivery of it has written since.

        The segment is done if `remaining` is empty.  Otherwise the worker keeps it and answers `suspect` next, or, with
        `again_at_ms`, it waits until then.
        """
        merged = [
            dict(results[place]) if place in results else known for place, known in enumerate(segment.results)
        ]
        statuses = Counter(str(result["status"]) for result in results.values())
        state = "done" if not remaining else "sent" if again_at_ms is None else "waiting"
        with self._writing() as connection:
            written = connection.execute(
                update(segments)
                .where(
                    _attempt(segment.job_id, segment.number, segment.attempt),
                    segments.c.open == len(segment.remaining),
                )
                .values(
                    state=state,
                    left=list(remaining),
                    open=len(remaining),
                    suspect=suspect,
                    tries=segments.c.tries if state == "sent" else 0,
                    again=segments.c.again + int(state == "waiting"),
                    due_at_ms=segments.c.due_at_ms if again_at_ms is None else again_at_ms,
                    degraded=segments.c.degraded + statuses["degraded"],
                    failed=segments.c.failed + statuses["failed"],
                    results=packed(merged),
                )
            )
            if not written.rowcount:
                return None
            add_counts(
                connection,
                segment.job_id,
                running=-len(results) - (len(remaining) if state == "waiting" else 0),
                deduplicated=sum(bool(result.get("deduplicated")) for result in results.values()),
                **{name: statuses[name] for name in COUNTED if statuses[name]},
            )
        return replace(segment, results=merged, remaining=list(remaining), suspect=suspect)


def _attempt(job_id: str, number: int, attempt: int) -> ColumnElement[bool]:
    """The segment, if this attempt is the last one sent and has no answer yet."""
    return and_(
        segments.c.job_id == job_id,
        segments.c.number == number,
        segments.c.attempt == attempt,
        segments.c.state == "sent",
    )
