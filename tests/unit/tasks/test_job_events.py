"""What Flower gets of a bulk job: one task, from PROGRESS to its end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from records.jobs.job import Job
from tasks.celery_internals.event_sender import Event
from tasks.jobs.job_events import REPEATED_AFTER_S, JobEvents, events_of, progress

JOB = Job(
    job_id="j1", name="nightly", namespace="docs", tenant="acme", weight=1.0, state="running", outcome=None,
    reason="", on_end=None, callback_sent=1, created_at_ms=10_000, touched_at_ms=10_000, started_at_ms=11_000,
    ended_at_ms=None, deadline_at_ms=None, segments=157, total=10_000, running=128, complete=1_277, degraded=3,
    failed=0, skipped=0, refused=0, expired=0, cancelled=0, deduplicated=0, rate_1m=218.0,
)  # fmt: skip


class Heard:
    """Keeps what a sender would send."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def send(self, events: list[Event]) -> None:
        self.events += events


def ended(outcome: str, **more: Any) -> Job:
    return replace(JOB, state="ended", outcome=outcome, running=0, ended_at_ms=71_000, rate_1m=None, **more)


def test_a_job_that_is_seen_first_is_received_and_started_when_it_was_made() -> None:
    received, started, last = events_of(JOB, None)
    assert received[0] == "task-received"
    assert received[1]["uuid"] == "j1"
    assert received[1]["name"] == "chorale.job"
    assert "'lines': 10000" in received[1]["kwargs"]
    assert (received[1]["timestamp"], started[1]["timestamp"]) == (10.0, 11.0)
    assert last[0] == "task-progress"


@pytest.mark.parametrize(
    ("outcome", "event"),
    [
        ("completed", "task-succeeded"),
        ("cancelled", "task-failed"),
        ("expired", "task-failed"),
        ("failed", "task-failed"),
    ],
)
def test_the_outcome_of_a_job_is_its_last_event(outcome: str, event: str) -> None:
    [(kind, fields)] = events_of(ended(outcome), "running")
    assert kind == event
    assert (fields["timestamp"], fields["runtime"]) == (71.0, 60.0)
    assert fields["result"].startswith(f"{outcome}: ")


def test_progress_names_what_is_done_the_rate_and_the_time_left() -> None:
    # 10,000 lines, of which 1,277 + 3 are done: 8,720 / 218 = 40 s.
    assert progress(JOB) == "running: 1,280/10,000 done (3 degraded), 218 lines/s, 40 s left"
    job = ended("cancelled", cancelled=8_720)
    assert progress(job) == "cancelled: 1,280/10,000 done (3 degraded, 8,720 cancelled)"
    [(_, fields)] = events_of(replace(job, reason="wrong"), "running")
    assert fields["exception"] == f"{progress(job)}; wrong"
    assert list(events_of(job, "ended")) == [], "the end is sent once"


def test_a_job_that_only_waits_is_sent_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of jobs may wait, and each event is a message."""
    now_s = 0.0
    monkeypatch.setattr("tasks.jobs.job_events.time.monotonic", lambda: now_s)
    heard = Heard()
    events = JobEvents(heard)  # type: ignore[arg-type]
    for _ in range(3):
        events.send([JOB])
    assert [kind for kind, _ in heard.events] == ["task-received", "task-started", "task-progress"]
    events.send([replace(JOB, complete=1_278)])
    assert len(heard.events) == 4
    now_s = REPEATED_AFTER_S
    events.send([replace(JOB, complete=1_278)])
    assert [kind for kind, _ in heard.events[4:]] == ["task-progress"]


def test_a_job_whose_lines_still_arrive_is_not_told() -> None:
    heard = Heard()
    events = JobEvents(heard)  # type: ignore[arg-type]
    events.send([replace(JOB, state="validating")])
    assert heard.events == []
    events.send([JOB])
    assert events.unfinished == ["j1"]
    events.send([ended("completed")])
    assert [kind for kind, _ in heard.events] == [
        "task-received", "task-started", "task-progress", "task-succeeded",
    ]  # fmt: skip
    assert events.unfinished == []


def test_a_job_that_is_deleted_before_its_end_was_sent_does_not_run_for_ever() -> None:
    heard = Heard()
    events = JobEvents(heard)  # type: ignore[arg-type]
    for jobs in ([JOB], [], []):
        events.send(jobs)
    assert [kind for kind, _ in heard.events][3:] == ["task-failed"]
    assert heard.events[3][1] == {"uuid": "j1", "exception": "deleted before its end was shown"}
    assert events.unfinished == []
