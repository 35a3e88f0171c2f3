"""When the feeder sends segments, and how it ends a job."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from config.settings import Settings
from jobs.job import Job, NoSuchJob
from ledger.overload import Load
from tasks.jobs.feeder import Feeder, Pace, is_fed, is_interactive_late, outcome_of

NOW_MS = 60_000
JOB = Job(
    job_id="j1", name="", namespace="docs", tenant="docs", weight=1.0, state="running", outcome=None, reason="",
    on_end=None, is_told=1, created_at_ms=0, touched_at_ms=0, started_at_ms=0, ended_at_ms=None, deadline_at_ms=None,
    segments=2, total=100, running=0, complete=0, degraded=0, failed=0, skipped=0, refused=0, expired=0, cancelled=0,
    deduplicated=0, rate_1m=None,
)  # fmt: skip


def test_no_segment_is_sent_while_a_message_of_a_request_waits_longer_than_a_tenth_of_a_second() -> None:
    assert is_interactive_late({"chorale.bm25": Load(3, 101), "chorale.fusion": Load(0)})
    assert not is_interactive_late({"chorale.bm25": Load(3, 100), "chorale.fusion": Load(0)})
    assert not is_interactive_late({})


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_job_with_pending_lines_is_fed(state: str) -> None:
    assert is_fed(replace(JOB, state=state), NOW_MS)


@pytest.mark.parametrize("state", ["validating", "paused", "cancelling", "ended"])
def test_a_job_in_another_state_is_not_fed(state: str) -> None:
    assert not is_fed(replace(JOB, state=state), NOW_MS)


def test_a_job_is_not_fed_after_its_deadline_or_without_pending_lines() -> None:
    assert not is_fed(replace(JOB, deadline_at_ms=NOW_MS), NOW_MS)
    assert is_fed(replace(JOB, deadline_at_ms=NOW_MS + 1), NOW_MS)
    assert not is_fed(replace(JOB, complete=90, running=10), NOW_MS)


@pytest.mark.parametrize(
    ("job", "outcome"),
    [
        (JOB, None),
        (replace(JOB, complete=99), None),
        (replace(JOB, complete=99, running=1), None),
        (replace(JOB, complete=97, failed=1, degraded=1, refused=1), "completed"),
        (replace(JOB, failed=90, refused=10), "failed"),
        (replace(JOB, refused=100), "completed"),
        (replace(JOB, deadline_at_ms=NOW_MS), "expired"),
        (replace(JOB, complete=100, deadline_at_ms=NOW_MS), "completed"),
        (replace(JOB, state="cancelling", complete=10), "cancelled"),
        (replace(JOB, state="paused"), None),
        (replace(JOB, state="paused", deadline_at_ms=NOW_MS), "expired"),
        (replace(JOB, state="ended", outcome="completed", complete=100), None),
    ],
)
def test_the_outcome_of_a_job_follows_from_its_state_and_counts(job: Job, outcome: str | None) -> None:
    assert outcome_of(job, NOW_MS) == outcome


def test_the_rate_is_that_of_the_last_minute() -> None:
    pace = Pace()
    assert pace.rate(0.0, 0) is None
    assert pace.rate(10.0, 1_000) == 100.0
    assert pace.rate(60.0, 1_000) == pytest.approx(1_000 / 60)
    # The first look is more than a minute old by now: 500 lines in the 60 s since the second one.
    assert pace.rate(70.0, 1_500) == pytest.approx(500 / 60)


def test_the_rate_of_a_job_that_is_answered_again_counts_from_then_on() -> None:
    pace = Pace()
    pace.rate(0.0, 0)
    pace.rate(10.0, 100)
    # A retry opened 40 lines again.
    assert pace.rate(11.0, 60) is None
    assert pace.rate(12.0, 70) == 10.0


def test_a_job_that_was_pruned_before_its_end_was_told_is_told_no_more() -> None:
    class Pruned:
        def get(self, job_id: str) -> Job:
            raise NoSuchJob(job_id)

    class Events:
        unfinished = ("j1",)
        sent: Any = None

        def send(self, jobs: list[Job]) -> None:
            self.sent = jobs

    events: Any = Events()
    redis = SimpleNamespace(smembers=lambda key: set(), lock=lambda *_, **__: None)
    app: Any = SimpleNamespace(
        resources=SimpleNamespace(jobs=Pruned(), redis=redis, settings=Settings(redis_url="redis://unused"))
    )
    Feeder(app, lambda: None, events).tell([])
    assert events.sent == []


def test_the_end_of_the_last_job_is_told_when_no_job_is_active_any_more() -> None:
    ended = replace(JOB, state="ended", outcome="completed", complete=100)
    told: list[list[Job]] = []
    events: Any = SimpleNamespace(unfinished=["j1"], send=told.append)
    jobs = SimpleNamespace(active=list, get=lambda job_id: ended, prune=lambda before_ms: 0)
    lease = SimpleNamespace(acquire=lambda blocking: True)
    redis = SimpleNamespace(smembers=lambda key: set(), lock=lambda *_, **__: lease, time=lambda: (60, 0))
    app: Any = SimpleNamespace(
        resources=SimpleNamespace(jobs=jobs, redis=redis, settings=Settings(redis_url="redis://unused"))
    )
    assert not Feeder(app, lambda: None, events).feed_once()
    assert told == [[ended]]
