"""Bulk jobs in a running pipeline: submitted to its database, and checked when they have ended."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from config.redis_client import redis_ms
from records.database import upgrade
from records.jobs.job import SEGMENT_LINES, Job, Line, NewJob, State
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until

SERVED = "chorale.retrieve,chorale.bm25,chorale.vector,chorale.hyde,chorale.fusion"
"""The queues of interactive requests, which one worker can serve."""
BULK = "chorale.bulk"

SHORT_LEASE_MS = 1_500
HASTE = f"""
from tasks.jobs import answering, feeder
answering.LEASE_MS = feeder.LEASE_MS = {SHORT_LEASE_MS}
feeder.ACTING_MS, feeder.IDLE_S = 1_000, 0.1
"""
"""Code for `preload`: what a dead process had in hand is taken over after 1.5 s instead of 15."""


def line(number: int, text: str, **options: Any) -> Line:
    """A line with one question."""
    return Line(number, f"q{number}", {"questions": [{"text": text}], **options})


def lines(count: int, text: str = "question {}") -> list[Line]:
    """Lines from 1 with different questions."""
    return [line(number, text.format(number)) for number in range(1, count + 1)]


def submit(
    pipeline: RunningPipeline, job_lines: Iterable[Line], *, segment: int = SEGMENT_LINES, **options: Any
) -> str:
    """A job of these lines, `segment` lines each; returns its id.  Segments of other sizes are for faults."""
    upgrade(pipeline.resources.settings.audit_database_url)
    jobs, now_ms, job_id = pipeline.resources.jobs, redis_ms(pipeline.redis), uuid.uuid4().hex
    if (after_s := options.pop("deadline_s", None)) is not None:
        options["deadline_at_ms"] = now_ms + round(after_s * 1000)
    jobs.create(NewJob(job_id, **{"namespace": "default", **options}), now_ms=now_ms)
    all_lines = list(job_lines)
    starts = range(0, len(all_lines), segment)
    for number, start in enumerate(starts):
        jobs.add(job_id, {number: all_lines[start : start + segment]}, now_ms=now_ms)
    jobs.begin(job_id, segments=len(starts), now_ms=now_ms)
    return job_id


def wait_done(pipeline: RunningPipeline, job_id: str, count: int, *, limit_s: float = 60) -> None:
    """Returns once this many lines have a result."""
    until(lambda: pipeline.resources.jobs.get(job_id).done >= count, limit_s)


def wait_ended(pipeline: RunningPipeline, job_id: str, *, limit_s: float = 60) -> Job:
    """The job when it has ended."""

    def ended() -> Job | None:
        job = pipeline.resources.jobs.get(job_id)
        return job if job.state == State.ENDED else None

    job = until(ended, limit_s)
    assert job is not None
    return job


def results(pipeline: RunningPipeline, job_id: str) -> dict[int, dict[str, Any]]:
    """The result lines by number, checked to be whole."""
    job = pipeline.resources.jobs.get(job_id)
    result_lines = list(pipeline.resources.jobs.results(job_id))
    numbers = [one["line"] for one in result_lines]
    assert numbers == list(range(1, job.total + 1)), "not every line exactly once, in input order"
    statuses = Counter(one["status"] for one in result_lines)
    counts = {name: count for name, count in job.counts.items() if count}
    assert counts == statuses, "the counts are not those of the result lines"
    assert sum(job.counts.values()) == job.total
    assert job.deduplicated == sum(one["deduplicated"] for one in result_lines)
    return {one["line"]: one for one in result_lines}


def answered(
    pipeline: RunningPipeline, job_lines: Iterable[Line], **options: Any
) -> dict[int, dict[str, Any]]:
    """The result lines of a job with these lines, by number."""
    job_id = submit(pipeline, job_lines, **options)
    wait_ended(pipeline, job_id)
    return results(pipeline, job_id)


@contextmanager
def reviving(pipeline: RunningPipeline) -> Iterator[None]:
    """Starts dead processes again, as a supervisor does."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.1):
            pipeline.restart_ended()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def documents(line: Mapping[str, Any]) -> list[str]:
    """The documents of a result line's hits."""
    return [hit["document_id"] for hit in line["hits"]]
