"""When the feeder sends segments, and how it ends a job."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from chorale_client.wire_names import QUEUE_BULK

from config.settings import Settings
from ledger.backlog import Load
from monitoring.queues import QueueState
from records.jobs.job import Job, Line, NoSuchJob
from records.jobs.segment_work import Sent
from tasks.jobs.feeder import (
    AHEAD,
    QUEUED_READ,
    Feeder,
    Pace,
    cost_of,
    is_fed,
    is_interactive_late,
    outcome_of,
)

NOW_MS = 60_000
JOB = Job(
    job_id="j1", name="", namespace="docs", tenant="docs", weight=1.0, state="running", outcome=None, reason="",
    on_end=None, callback_sent=1, created_at_ms=0, touched_at_ms=0, started_at_ms=0, ended_at_ms=None, deadline_at_ms=None,
    segments=2, total=100, running=0, complete=0, degraded=0, failed=0, skipped=0, refused=0, expired=0, cancelled=0,
    deduplicated=0, rate_1m=None,
)  # fmt: skip


def test_no_segment_is_sent_while_a_message_of_a_request_waits_longer_than_a_tenth_of_a_second() -> None:
    assert is_interactive_late({"chorale.bm25": Load(3, 101), "chorale.fusion": Load(0)})
    assert not is_interactive_late({"chorale.bm25": Load(3, 100), "chorale.fusion": Load(0)})
    assert not is_interactive_late({})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        *(({"state": state}, True) for state in ("queued", "running")),
        *(({"state": state}, False) for state in ("validating", "paused", "cancelling", "ended")),
        ({"deadline_at_ms": NOW_MS}, False),
        ({"deadline_at_ms": NOW_MS + 1}, True),
        ({"complete": 90, "running": 10}, False),
    ],
)
def test_a_job_with_pending_lines_is_fed_until_its_deadline(changes: dict[str, Any], expected: bool) -> None:
    assert is_fed(replace(JOB, **changes), NOW_MS) is expected


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


def test_the_rate_is_that_of_the_last_minute_and_counts_anew_if_lines_are_answered_again() -> None:
    pace = Pace()
    assert pace.rate(0.0, 0) is None
    assert pace.rate(10.0, 1_000) == 100.0
    assert pace.rate(60.0, 1_000) == pytest.approx(1_000 / 60)
    # The first measurement is more than a minute old by now: 500 lines in the 60 s since the second one.
    assert pace.rate(70.0, 1_500) == pytest.approx(500 / 60)
    # A retry opened 40 lines again.
    assert pace.rate(71.0, 1_460) is None
    assert pace.rate(72.0, 1_470) == 10.0


def feeder(jobs: object, events: Any, **redis: Any) -> Feeder:
    lease = SimpleNamespace(acquire=lambda blocking: True)
    server = SimpleNamespace(smembers=lambda key: set(), lock=lambda *_, **__: lease, **redis)
    resources = SimpleNamespace(
        jobs=jobs, redis=server, settings=Settings(redis_url="redis://unused"), redis_url="redis://unused"
    )
    app: Any = SimpleNamespace(send_task=lambda *_, **__: None, resources=resources)
    return Feeder(app, lambda: None, events)


def test_a_job_that_was_pruned_before_its_end_was_sent_is_not_sent_again() -> None:
    def pruned(job_id: str) -> Job:
        raise NoSuchJob(job_id)

    sent: list[list[Job]] = []
    jobs = SimpleNamespace(active=lambda **_: [], get=pruned)
    feeder(jobs, SimpleNamespace(unfinished=("j1",), send=sent.append)).publish([])
    assert sent == [[]]


def test_the_states_of_thousands_of_jobs_are_read_with_one_query() -> None:
    waiting = [replace(JOB, job_id=f"j{number}", state="queued") for number in range(5_000)]
    queries: list[str] = []

    def active(**_: object) -> list[Job]:
        queries.append("all")
        return waiting

    jobs = SimpleNamespace(active=active, get=queries.append)
    sent: list[list[Job]] = []
    unfinished = [job.job_id for job in waiting]
    feeder(jobs, SimpleNamespace(unfinished=unfinished, send=sent.append)).publish(waiting)
    assert (sent, queries) == ([waiting], ["all"])


def test_the_end_of_the_last_job_is_sent_when_no_job_is_active_any_more() -> None:
    ended = replace(JOB, state="ended", outcome="completed", complete=100)
    sent: list[list[Job]] = []
    jobs = SimpleNamespace(active=lambda **_: [], get=lambda job_id: ended, prune=lambda before_ms: 0)
    events = SimpleNamespace(unfinished=["j1"], send=sent.append)
    assert not feeder(jobs, events, time=lambda: (60, 0)).feed_once()
    assert sent == [[ended]]


def test_neither_what_another_cell_has_in_hand_nor_parts_of_costly_requests_count_as_segments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With those of others, the feeders of two cells would outdo each other until every segment is sent."""
    others = {("j1", number, 1) for number in range(10)}
    sent: list[int] = []

    def send(job_id: str, **_: object) -> Sent:
        sent.append(10 + len(sent))
        return Sent(sent[-1], 1, [])

    queue = {QUEUE_BULK: QueueState(2)}
    monkeypatch.setattr(
        "tasks.jobs.feeder.open_queues", lambda *_, **__: SimpleNamespace(states=lambda: queue)
    )
    jobs = SimpleNamespace(
        active=lambda **_: [JOB],
        sent=lambda: others | {("j1", number, 1) for number in sent},
        send=send,
        prune=lambda before_ms: 0,
        note_rate=lambda *_: None,
    )
    events = SimpleNamespace(unfinished=[], send=lambda _: None)
    tested = feeder(jobs, events, time=lambda: (60, 0), hgetall=lambda key: {})
    assert tested.feed_once()
    assert sent == [10, 11]
    queue[QUEUE_BULK] = QueueState(0)
    # Both are taken at once: two in hand, and as many shall wait.
    assert tested.feed_once()
    assert sent == [10, 11, 12, 13]


def test_queued_jobs_are_read_only_if_a_segment_may_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = {QUEUE_BULK: QueueState(AHEAD)}
    monkeypatch.setattr(
        "tasks.jobs.feeder.open_queues", lambda *_, **__: SimpleNamespace(states=lambda: queue)
    )
    read: list[int | None] = []

    def active(*, queued_per_tenant: int | None = None) -> list[Job]:
        read.append(queued_per_tenant)
        return [JOB]

    numbers = count()
    jobs = SimpleNamespace(
        active=active,
        sent=lambda: {("j1", number, 1) for number in range(100)},
        send=lambda *_, **__: Sent(next(numbers), 1, []),
        prune=lambda before_ms: 0,
        note_rate=lambda *_: None,
    )
    events = SimpleNamespace(unfinished=[], send=lambda _: None)
    tested = feeder(jobs, events, time=lambda: (60, 0), hgetall=lambda key: {})
    assert all(tested.feed_once() for _ in range(2))
    # The first tick reads all jobs twice, to feed and to publish.  It sends as many segments as may wait.
    assert read == [None, None, 0]
    queue[QUEUE_BULK] = QueueState(0)
    assert tested.feed_once()
    assert read[3:] == [QUEUED_READ]


def test_a_segment_counts_for_what_its_lines_cost() -> None:
    plain = Line(1, "a", {"questions": [{"text": "rent"}]})
    # 8 * .0458 s and .001112 s, in lines of .003 s.
    costly = Line(2, "b", {"questions": [{"text": "rent", "hypothetical_documents": ["x" * 1_600] * 8}]})
    from_a_newer_version = Line(3, "c", {"questions": [{"words": "rent"}]})
    assert cost_of([plain, from_a_newer_version]) == 2
    assert round(cost_of([plain, costly]), 3) == 123.504
