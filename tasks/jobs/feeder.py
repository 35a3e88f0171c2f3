"""Sends the segments of bulk jobs to the bulk workers, and ends jobs.

Every sweeper process has a feeder, and one of them acts.  Two that act for a moment do no harm: each change of a segment in
SQL is conditional, and its first result counts.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf, nextafter

from celery import Celery
from chorale_client.keys import FEEDER, OVERLOAD, REVOKED
from chorale_client.request import Question
from chorale_client.wire_names import QUEUE_BULK, TASK_ANSWER_LINES
from pydantic import TypeAdapter, ValidationError
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError
from structlog import get_logger

from config.redis_client import redis_ms
from ledger.backlog import Load, read_loads
from models import plan
from models.duty import Duty, holds
from monitoring.queues import Queues, open_queues
from records.jobs.job import SEGMENT_LINES, Job, Line, NoSuchJob, Outcome, State
from records.jobs.segment_work import Sent
from tasks.callbacks.job_ends import JobEnds
from tasks.jobs.answering import LEASE_MS
from tasks.jobs.job_events import JobEvents
from tasks.wiring.resources import Resources

log = get_logger("chorale.jobs")


TICK_S = 0.1
"""A tick costs 4 ms; a worker needs about .2 s for a segment."""
LAPSE_EVERY_S = 0.5
IDLE_S = 1.0
"""How often a feeder looks for a new job, or for the place of a feeder that died."""
ACTING_MS = 5_000
"""Lease of the feeder that acts."""
AHEAD = 2
"""Segments that wait in the queue at least, so that no worker waits for the feeder; with more workers, as many as they
have in hand."""
LONGEST_WAIT_MS = 100
"""While an interactive message has waited longer than this, no segment is sent."""
RATE_S = 60.0
STOPPED_MS = 600_000
"""A submission that sent nothing for this long has died."""
PRUNE_EVERY_S = 3_600.0
QUEUED_READ = 32
"""Queued jobs of each tenant that a tick reads, if a segment may be sent."""
WHOLE_EVERY_S = 1.0
"""How often all jobs are read; more seldom if that takes more than SHARE_OF_WHOLE of the time."""
SHARE_OF_WHOLE = 0.1
_QUESTIONS = TypeAdapter(tuple[Question, ...])


@dataclass(slots=True)
class Pace:
    """How many lines of a job were done, and when, during the last minute."""

    seen: deque[tuple[float, int]] = field(default_factory=deque)

    def rate(self, now_s: float, done: int) -> float | None:
        """Lines a second; None before there are two moments.  After a retry fewer lines are done, and the rate is measured anew."""
        if self.seen and done < self.seen[-1][1]:
            self.seen.clear()
        self.seen.append((now_s, done))
        while now_s - self.seen[0][0] > RATE_S:
            self.seen.popleft()
        since_s, before = self.seen[0]
        return (done - before) / (now_s - since_s) if now_s > since_s else None


class Feeder(Duty):
    failing = "jobs wait"
    expected = (*Duty.expected, RedisError, SQLAlchemyError)

    def __init__(self, app: Celery, prepare: Callable[[], object], events: JobEvents) -> None:
        """`prepare` brings up the tables; it is called often."""
        self._app = app
        self._prepare = prepare
        self._resources: Resources = app.resources
        self._lease = self._resources.redis.lock(FEEDER, timeout=ACTING_MS / 1_000, thread_local=False)
        self._sent: set[tuple[str, int, int]] = set()
        """The segments that this feeder has sent and workers have not done; the feeder of another cell has sent others."""
        self._shares = TenantShares()
        self._paces: dict[str, Pace] = {}
        self._due_s: dict[str, float] = {}
        """When a duty that is not done at every tick is due again, by the monotonic clock."""
        self._queues: Queues | None = None
        self._events = events
        self._on_end = JobEnds(app)

    def tick(self) -> float:
        self._prepare()
        begun_s = time.monotonic()
        if not self.feed_once():
            return IDLE_S
        # A tick over thousands of jobs takes long, and the pause leaves time to the threads that end requests.
        return max(TICK_S, time.monotonic() - begun_s)

    def feed_once(self) -> bool:
        """One tick over the jobs that may go on, and now and then over all; returns whether any may go on."""
        if not holds(self._lease):
            return False
        jobs, begun_s = self._resources.jobs, time.monotonic()
        is_whole = begun_s >= self._due_s.get("whole", 0)
        free_slots = 0 if is_whole else self._free_slots()
        active = jobs.active(queued_per_tenant=None if is_whole else QUEUED_READ if free_slots else 0)
        now_ms = redis_ms(self._resources.redis)
        self._forget_old(now_ms)
        if not active:
            if is_whole and self._events.unfinished:  # jobs were deleted
                self.publish(active)
            return False
        if self._is_due("lapse", LAPSE_EVERY_S):
            for job in active:
                if job.running:
                    jobs.lapse(job.job_id, now_ms=now_ms)
        sendable = [job for job in active if is_fed(job, now_ms)]
        self._send(sendable, self._free_slots() if is_whole and sendable else free_slots, now_ms)
        for job in active:
            self._end_if_due(job, now_ms)
        self._on_end.start_due([job for job in active if job.state == State.ENDED])
        if is_whole:
            self.publish(active)
            now_s = time.monotonic()
            self._due_s["whole"] = now_s + max(WHOLE_EVERY_S, (now_s - begun_s) / SHARE_OF_WHOLE)
        return any(job.state not in (State.ENDED, State.PAUSED, State.VALIDATING) for job in active)

    def _is_due(self, duty: str, every_s: float) -> bool:
        now_s = time.monotonic()
        is_due = now_s >= self._due_s.get(duty, 0)
        if is_due:
            self._due_s[duty] = now_s + every_s
        return is_due

    def _send(self, sendable: Sequence[Job], free_slots: int, now_ms: int) -> None:
        """Send segments, the tenant with the least service first, until enough of them wait."""
        jobs_by_tenant: dict[str, list[Job]] = {}
        for job in sendable:
            jobs_by_tenant.setdefault(job.tenant, []).append(job)
        weights = {tenant: jobs[0].weight for tenant, jobs in jobs_by_tenant.items()}
        while free_slots > 0 and weights:
            tenant = self._shares.order(weights)[0]
            if sent := self._send_one(jobs_by_tenant[tenant], now_ms):
                self._shares.serve(tenant, max(SEGMENT_LINES, cost_of(sent.lines)), weights[tenant])
                free_slots -= 1
            else:
                del weights[tenant]

    def _send_one(self, jobs: Iterable[Job], now_ms: int) -> Sent | None:
        """Send the next segment of the first of these jobs that has one."""
        for job in jobs:
            sent = self._resources.jobs.send(job.job_id, now_ms=now_ms, lease_ms=LEASE_MS)
            if sent is not None:
                self._app.send_task(
                    TASK_ANSWER_LINES,
                    kwargs={"job_id": job.job_id, "number": sent.number, "attempt": sent.attempt},
                    queue=QUEUE_BULK,
                )
                self._sent.add((job.job_id, sent.number, sent.attempt))
                return sent
        return None

    def _free_slots(self) -> int:
        """How many segments may be sent now."""
        overload: dict[bytes, bytes] = self._resources.redis.hgetall(OVERLOAD)  # type: ignore[assignment]
        loads = read_loads([part for pair in overload.items() for part in pair])
        if is_interactive_late(loads):
            return 0
        if self._queues is None:
            self._queues = open_queues(
                self._resources.redis, [QUEUE_BULK], broker_url=self._resources.settings.broker_url
            )
        sent = self._resources.jobs.sent()
        # Parts of costly requests wait there too.
        self._sent &= sent
        waiting = min(self._queues.states()[QUEUE_BULK].length or 0, len(self._sent))
        in_hand = len(self._sent) - waiting
        return max(AHEAD, in_hand) - waiting

    def reset(self) -> None:
        queues, self._queues = self._queues, None
        if queues is not None:
            try:
                queues.close()
            except Exception as error:  # it is gone either way
                log.info("broker not closed", error=str(error)[:200])

    def _end_if_due(self, job: Job, now_ms: int) -> None:
        jobs = self._resources.jobs
        if job.state == State.VALIDATING:
            if now_ms - job.touched_at_ms > STOPPED_MS:
                jobs.refuse(job.job_id, "the submission stopped before all lines had come", now_ms=now_ms)
        elif (outcome := outcome_of(job, now_ms)) is not None and jobs.end(
            job.job_id, outcome, now_ms=now_ms
        ):
            log.info("job ended", job_id=job.job_id, outcome=str(outcome))
            with suppress(NoSuchJob):
                self._events.send_end(jobs.get(job.job_id))

    def publish(self, active: Sequence[Job]) -> None:
        """The rate in SQL, the events, and what Flower revoked meanwhile."""
        now_s, jobs = time.monotonic(), self._resources.jobs
        revoked: set[bytes] = self._resources.redis.smembers(REVOKED)  # type: ignore[assignment]
        for job in active:
            if job.job_id.encode() in revoked and job.state not in (State.CANCELLING, State.ENDED):
                jobs.cancel(job.job_id)
        self._paces = {job.job_id: self._paces.get(job.job_id, Pace()) for job in active}
        for job in active:
            if job.state == State.RUNNING:
                jobs.note_rate(job.job_id, self._paces[job.job_id].rate(now_s, job.done))
        # One query reads all jobs: one tenant may have thousands, and the jobs of other tenants wait meanwhile.
        unfinished = {job.job_id: job for job in jobs.active()}
        for job_id in (*(job.job_id for job in active), *self._events.unfinished):
            if job_id not in unfinished:
                with suppress(NoSuchJob):  # it was pruned
                    unfinished[job_id] = jobs.get(job_id)
        self._events.send([*unfinished.values()])

    def _forget_old(self, now_ms: int) -> None:
        days = self._resources.settings.job_retention_days
        if days and self._is_due("prune", PRUNE_EVERY_S):
            self._resources.jobs.prune(before_ms=now_ms - round(days * 86_400_000))


def cost_of(lines: Sequence[Line]) -> float:
    """For how many ordinary lines these lines count.  A line that cannot be read counts as one."""
    cost = 0.0
    for line in lines:
        try:
            cost += plan.ordinary_lines(_QUESTIONS.validate_python((line.fields or {}).get("questions", ())))
        except ValidationError:
            cost += 1
    return cost


def is_interactive_late(loads: Mapping[str, Load]) -> bool:
    """Whether a message that somebody waits for has waited too long for a worker."""
    return any((load.age_ms or 0) > LONGEST_WAIT_MS for load in loads.values())


def is_fed(job: Job, now_ms: int) -> bool:
    return (
        job.state in (State.QUEUED, State.RUNNING) and not _is_late(job, now_ms) and job.counts["pending"] > 0
    )


def _is_late(job: Job, now_ms: int) -> bool:
    return job.deadline_at_ms is not None and job.deadline_at_ms <= now_ms


def outcome_of(job: Job, now_ms: int) -> Outcome | None:
    """How the job ends as soon as no worker has a segment of it; None if it goes on."""
    if job.state == State.CANCELLING:
        return Outcome.CANCELLED
    counts = job.counts
    if counts["pending"] + counts["running"] == 0 and job.state != State.ENDED:
        has_answer = job.total - job.failed - job.refused > 0
        return Outcome.COMPLETED if has_answer or not job.failed else Outcome.FAILED
    if _is_late(job, now_ms) and job.state != State.ENDED:
        return Outcome.EXPIRED
    return None


class TenantShares:
    """How much each tenant that has work was served."""

    def __init__(self) -> None:
        self._served: dict[str, float] = {}

    def order(self, weights: Mapping[str, float]) -> list[str]:
        """The tenants that have work now, the next one first.  `weights` has their weights; a tenant that is absent has no
        work, and is forgotten."""
        known = [served for tenant, served in self._served.items() if tenant in weights]
        start = nextafter(min(known) - SEGMENT_LINES, -inf) if known else 0.0
        self._served = {tenant: self._served.get(tenant, start) for tenant in weights}
        return sorted(weights, key=lambda tenant: (self._served[tenant], tenant))

    def serve(self, tenant: str, lines: float, weight: float) -> None:
        """Count ordinary lines that were sent for a tenant of the last `order` (`models.plan.ordinary_lines`)."""
        self._served[tenant] += lines / weight
