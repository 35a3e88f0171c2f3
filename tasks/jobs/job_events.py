"""What Flower hears of bulk jobs: each is one task, from its progress to its end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from records.jobs.job import Job, Outcome, State
from tasks.celery_internals.event_sender import Event, EventSender

TASK_JOB = "chorale.job"
_WELL = ("pending", "running", "complete")
REPEATED_AFTER_S = 30.0
"""A Flower that has just started hears of a job that only waits after this time at the latest."""


class JobEvents:
    """Tells of jobs through a sender; None: nobody listens."""

    def __init__(self, sender: EventSender | None) -> None:
        self._sender = sender
        self._states: dict[str, str] = {}
        """The state of each job in its last event."""
        self._progress: dict[str, str] = {}
        """The progress of each job in its last event."""
        self._repeat_at_s = 0.0

    @property
    def unfinished(self) -> list[str]:
        """The jobs that Flower shows as running."""
        return [job_id for job_id, state in self._states.items() if state != State.ENDED]

    def send(self, jobs: Sequence[Job]) -> None:
        """Tell what has changed since the last call.  `jobs` are all that have not ended, and all in `unfinished`."""
        if self._sender is None:
            return
        jobs = [job for job in jobs if job.state != State.VALIDATING]
        if time.monotonic() >= self._repeat_at_s:
            self._progress, self._repeat_at_s = {}, time.monotonic() + REPEATED_AFTER_S
        events = [
            (kind, fields)
            for job in jobs
            for kind, fields in events_of(job, self._states.get(job.job_id))
            if kind != "task-progress" or fields["result"] != self._progress.get(job.job_id)
        ]
        for job_id in {*self.unfinished} - {job.job_id for job in jobs}:
            events.append(("task-failed", {"uuid": job_id, "exception": "deleted before its end was shown"}))
        if events:
            self._sender.send(events)
        self._states = {job.job_id: job.state for job in jobs}
        self._progress = {job.job_id: progress(job) for job in jobs}

    def send_end(self, job: Job) -> None:
        """Tell at once of a job that has ended: it may be deleted soon."""
        if self._sender is not None:
            self._sender.send([*events_of(job, self._states.get(job.job_id))])
            self._states[job.job_id] = job.state


def events_of(job: Job, before: str | None) -> Iterator[Event]:
    """The events of a job whose state was `before` at its last event; None: it had none."""
    created_s, started_at_ms = job.created_at_ms / 1000, job.started_at_ms or job.created_at_ms
    if before is None:
        about = repr({"name": job.name, "namespace": job.namespace, "tenant": job.tenant, "lines": job.total})
        fields = {"name": TASK_JOB, "args": "()", "kwargs": about, "timestamp": created_s}
        yield "task-received", {"uuid": job.job_id, "root_id": job.job_id, **fields}
        yield "task-started", {"uuid": job.job_id, "timestamp": started_at_ms / 1000}
    if job.state != State.ENDED:
        yield "task-progress", {"uuid": job.job_id, "result": progress(job)}
    elif before != State.ENDED:
        ended_at_ms = job.ended_at_ms or started_at_ms
        fields = {"result": progress(job), "timestamp": ended_at_ms / 1000}
        is_well = job.outcome == Outcome.COMPLETED
        if not is_well:
            fields |= {"exception": "; ".join(filter(None, (progress(job), job.reason)))}
        runtime_s = (ended_at_ms - started_at_ms) / 1000
        # After PROGRESS, Celery's view of events takes REVOKED for an older state: a cancelled job is shown as FAILURE.
        kind = "task-succeeded" if is_well else "task-failed"
        yield kind, {"uuid": job.job_id, "runtime": runtime_s, **fields}


def progress(job: Job) -> str:
    """`running: 1,280/10,000 done (3 degraded), 212 lines/s, 41 s left`."""
    counts = job.counts
    worse = [f"{count:,} {name}" for name, count in counts.items() if name not in _WELL and count]
    done = job.done - counts["expired"] - counts["cancelled"]
    text = f"{job.outcome or job.state}: {done:,}/{job.total:,} done"
    if worse:
        text += f" ({', '.join(worse)})"
    if job.eta_s is not None:
        text += f", {job.rate_1m:,.0f} lines/s, {job.eta_s:,.0f} s left"
    return text
