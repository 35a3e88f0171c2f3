"""What the store of jobs promises, on SQLite and PostgreSQL."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import make_url

from records.jobs.job import JobsUnavailable, NewJob, NoSuchJob, Outcome, State, WrongState
from records.jobs.store import Jobs
from tests.support.jobs import LEASE_MS, answered, ended, lines, next_segment, result, statuses, submitted


def counts(store: Jobs, job_id: str) -> dict[str, int]:
    """The counts that are not 0."""
    return {name: count for name, count in store.get(job_id).counts.items() if count}


def test_the_counts_follow_the_lines_from_pending_to_their_results(store: Jobs) -> None:
    job = submitted(store, "job", [lines(3, refused=[2]), lines(2, first=4)])
    assert (store.get(job).state, store.get(job).total) == (State.QUEUED, 5)
    assert counts(store, job) == {"pending": 4, "refused": 1}

    segment = next_segment(store, job)
    assert (segment.remaining, store.get(job).state) == ([0, 2], State.RUNNING)
    assert counts(store, job) == {"pending": 2, "running": 2, "refused": 1}

    store.write(segment, {0: result(deduplicated=True), 2: result("degraded")})
    assert counts(store, job) == {"pending": 2, "complete": 1, "degraded": 1, "refused": 1}
    assert store.get(job).deduplicated == 1

    ended(store, job, {5: result("failed")})
    assert counts(store, job) == {"complete": 2, "degraded": 1, "failed": 1, "refused": 1}
    assert (store.get(job).state, store.get(job).outcome) == (State.ENDED, Outcome.COMPLETED)


def test_results_come_in_input_order_up_to_the_first_line_that_is_not_answered(store: Jobs) -> None:
    job = submitted(store, "job", [lines(2), lines(2, first=3), lines(2, first=5, refused=[6])])
    first, second, third = (next_segment(store, job) for _ in range(3))
    store.write(third, {0: result()})
    store.write(first, {0: result(), 1: result("failed")})
    assert statuses(store, job) == [(1, "complete"), (2, "failed")]
    store.write(second, {0: result(), 1: result()})
    assert statuses(store, job, after=3) == [(4, "complete"), (5, "complete"), (6, "refused")]
    errors = [line["error"] for line in store.results(job) if line["error"]]
    assert errors == ["no branch answered", "text: empty"]
    alone = submitted(store, "alone", [lines(2, refused=[1, 2])])
    assert store.send(alone, now_ms=10, lease_ms=LEASE_MS) is None, "refused lines need no worker"
    assert statuses(store, alone) == [(1, "refused"), (2, "refused")]


@pytest.mark.parametrize("after", [0, 1, 3, 7, 28, 500])
def test_results_go_on_after_any_line(store: Jobs, after: int) -> None:
    # Two input lines of three are blank, and blank lines are omitted.
    some = lines(30)[::3]
    job = submitted(store, "job", [some[start : start + 2] for start in range(0, 10, 2)])
    ended(store, job)
    numbers = [number for number, _ in statuses(store, job, after=after)]
    assert numbers == [number for number in range(1, 31, 3) if number > after]


@pytest.mark.parametrize("parts", [[[0, 1]], [[0], [1]]], ids=["at once", "in parts"])
def test_a_segment_that_is_delivered_twice_is_written_once(store: Jobs, parts: list[list[int]]) -> None:
    job = submitted(store, "job", [lines(2)])
    sent = store.send(job, now_ms=1, lease_ms=LEASE_MS)
    assert sent is not None
    first, again = (store.take(job, *sent[:2], now_ms=2, lease_ms=LEASE_MS) for _ in range(2))
    assert again is not None
    assert (first and first.tries, again.tries) == (1, 2)
    remaining = [0, 1]
    for places in parts:
        assert first is not None
        remaining = remaining[len(places) :]
        first = store.write(first, {place: result() for place in places}, remaining=remaining)
        assert store.write(again, {0: result("failed"), 1: result("failed")}) is None
    assert statuses(store, job) == [(1, "complete"), (2, "complete")]
    assert counts(store, job) == {"complete": 2}


def test_a_worker_that_lost_its_lease_can_neither_renew_nor_write(store: Jobs) -> None:
    job = submitted(store, "job", [lines(2)])
    lost = next_segment(store, job, now_ms=10)
    assert store.lapse(job, now_ms=10 + LEASE_MS) == 0
    assert store.lapse(job, now_ms=11 + LEASE_MS) == 1
    assert counts(store, job) == {"pending": 2}
    assert not store.renew(lost, now_ms=20, lease_ms=LEASE_MS)
    assert store.write(lost, {0: result(), 1: result()}) is None
    assert ended(store, job)
    assert counts(store, job) == {"complete": 2}


def test_lines_that_are_left_wait_until_their_time(store: Jobs) -> None:
    job = submitted(store, "job", [lines(3)])
    segment = next_segment(store, job)
    store.write(segment, {1: result()}, remaining=[0, 2], again_at_ms=500)
    assert counts(store, job) == {"pending": 2, "complete": 1}
    assert store.send(job, now_ms=499, lease_ms=LEASE_MS) is None
    rest = next_segment(store, job, now_ms=500)
    assert rest.remaining == [0, 2]
    assert rest.results[1] == result()


def test_sending_a_segment_again_changes_nothing_and_a_job_begins_with_all_of_them(store: Jobs) -> None:
    for _ in range(2):
        store.create(NewJob("job", "default"), now_ms=1)
        store.add("job", {0: lines(2)}, now_ms=1)
    with pytest.raises(WrongState, match="1 of 2 segments"):
        store.begin("job", segments=2, now_ms=1)
    assert store.get("job").state == State.VALIDATING
    for _ in range(2):
        store.begin("job", segments=1, now_ms=1)
    assert (store.get("job").segments, counts(store, "job")) == (1, {"pending": 2})


def test_a_refused_file_leaves_a_failed_job_without_lines(store: Jobs) -> None:
    store.create(NewJob("job", "default"), now_ms=1)
    store.add("job", {0: lines(2, refused=[2])}, now_ms=1)
    store.refuse("job", "1 wrong line", now_ms=2)
    job = store.get("job")
    assert (job.state, job.outcome, job.reason) == (State.ENDED, Outcome.FAILED, "1 wrong line")
    assert (job.total, sum(job.counts.values()), list(store.results("job"))) == (0, 0, [])
    with pytest.raises(WrongState):
        store.retry("job", ["expired"], now_ms=3)


def test_a_job_is_found_by_the_beginning_of_its_id(store: Jobs) -> None:
    for name in ("abc", "abcd", "abd", "a_c"):
        store.create(NewJob(name, "default"), now_ms=1)
    for beginning, job_id in (("abd", "abd"), ("abc", "abc"), ("abcd", "abcd"), ("a_", "a_c")):
        assert store.find(beginning).job_id == job_id
    with pytest.raises(NoSuchJob, match="several ids begin with 'ab': abc, abcd, abd"):
        store.find("ab")
    for nothing in ("x", "%", ""):
        with pytest.raises(NoSuchJob, match="jobs list"):
            store.find(nothing)


def test_a_job_is_paused_resumed_and_cancelled(store: Jobs) -> None:
    job = submitted(store, "job", [lines(2), lines(2, first=3)])
    segment = next_segment(store, job)
    for steer, state in (
        (store.resume, State.RUNNING),
        (store.pause, State.PAUSED),
        (store.resume, State.QUEUED),
    ):
        steer(job)
        assert store.get(job).state == state
    store.cancel(job)
    assert not store.end(job, Outcome.CANCELLED, now_ms=2), "a worker still has a segment"
    store.write(segment, {0: result(), 1: result()})
    assert store.end(job, Outcome.CANCELLED, now_ms=2)
    assert statuses(store, job) == [(1, "complete"), (2, "complete"), (3, "cancelled"), (4, "cancelled")]
    with pytest.raises(WrongState, match="is ended; this is possible while it is"):
        store.pause(job)
    with pytest.raises(NoSuchJob):
        store.cancel("nobody")


@pytest.mark.parametrize("state", [State.PAUSED, State.CANCELLING, State.ENDED])
def test_a_late_feeder_sends_no_segment_of_a_job_that_may_not_run(store: Jobs, state: State) -> None:
    job = submitted(store, "job", [lines(2)])
    steer = store.pause if state == State.PAUSED else store.cancel
    steer(job)
    if state == State.ENDED:
        store.end(job, Outcome.CANCELLED, now_ms=2)
    assert store.send(job, now_ms=3, lease_ms=LEASE_MS) is None
    assert (store.get(job).state, sum(counts(store, job).values())) == (state, 2)


def test_retry_answers_only_the_lines_with_the_chosen_statuses(store: Jobs) -> None:
    job = submitted(store, "job", [lines(3)])
    with pytest.raises(WrongState, match="is queued"):
        store.retry(job, ["failed"], now_ms=1)
    ended(store, job, {1: result("failed"), 2: result("degraded", deduplicated=True)})
    assert store.retry(job, ["failed"], now_ms=200) == 1
    assert not store.end(job, Outcome.COMPLETED, now_ms=201), "a feeder that comes late completes nothing"
    assert (store.get(job).state, counts(store, job)) == (
        State.QUEUED,
        {"pending": 1, "complete": 1, "degraded": 1},
    )
    ended(store, job)
    assert store.retry(job, ["failed", "degraded"], now_ms=300, deadline_at_ms=900) == 1
    assert (store.get(job).deadline_at_ms, store.get(job).deduplicated) == (900, 0)
    ended(store, job)
    assert statuses(store, job) == [(number, "complete") for number in (1, 2, 3)]
    with pytest.raises(WrongState, match="no line that is failed or expired"):
        store.retry(job, ["failed", "expired"], now_ms=400)


def test_retry_leaves_other_lines_alone_and_a_line_not_reached_keeps_its_result(store: Jobs) -> None:
    job = submitted(store, "job", [lines(2), lines(2, first=3)])
    answered(store, job, {1: result("failed")}, segments=1)
    store.end(job, Outcome.CANCELLED, now_ms=2)
    assert store.retry(job, ["failed"], now_ms=200) == 1
    assert answered(store, job, {1: result("degraded", deduplicated=True)}) == 1
    store.end(job, Outcome.COMPLETED, now_ms=300)
    assert counts(store, job) == {"complete": 1, "degraded": 1, "cancelled": 2}
    assert store.retry(job, ["degraded"], now_ms=400) == 1
    store.end(job, Outcome.EXPIRED, now_ms=500)
    assert counts(store, job) == {"complete": 1, "degraded": 1, "cancelled": 2}
    assert store.get(job).deduplicated == 1
    assert [line["hits"] for line in store.results(job)][:2] == [result()["hits"]] * 2
    assert store.retry(job, ["expired", "degraded"], now_ms=600) == 3
    ended(store, job)
    assert counts(store, job) == {"complete": 4}


def test_jobs_are_listed_newest_first_and_active_ones_oldest_first(store: Jobs) -> None:
    def active() -> list[str]:
        return [job.job_id for job in store.active()]

    for now_ms, name in enumerate(["first", "second", "third"]):
        submitted(store, name, [lines(1)], now_ms=now_ms, on_end={"url": "https://example.org"})
    ended(store, "second")
    assert [job.job_id for job in store.last(2)] == ["third", "second"]
    assert active() == ["first", "second", "third"], "nobody was told of the second's end"
    store.note_callback_sent("second", ended_at_ms=1)
    assert len(active()) == 3, "the end that was told of is not this one"
    store.note_callback_sent("second", ended_at_ms=100)
    assert active() == ["first", "third"]
    assert (store.prune(before_ms=100), store.prune(before_ms=101)) == (0, 1)
    assert [job.job_id for job in store.last(9)] == ["third", "first"]
    assert statuses(store, submitted(store, "second", [lines(1)])) == []


def test_of_the_queued_jobs_of_each_tenant_the_oldest_are_read(store: Jobs) -> None:
    for now_ms in range(4):
        for tenant in ("acme", "zenith"):
            submitted(store, f"{tenant}-{now_ms}", [lines(1)], now_ms=now_ms, tenant=tenant)
    next_segment(store, "acme-3")  # it runs
    submitted(store, "paused", [lines(1)], now_ms=9)
    store.pause("paused")
    read = [job.job_id for job in store.active(queued_per_tenant=2)]
    assert sorted(read) == ["acme-0", "acme-1", "acme-3", "zenith-0", "zenith-1"]
    assert len(store.active()) == 9


def test_the_lines_of_the_tenants_with_most_of_them_are_summed(store: Jobs) -> None:
    submitted(store, "first", [lines(2), lines(3)], tenant="acme", weight=2.0)
    submitted(store, "second", [lines(1)], tenant="acme", weight=2.0)
    submitted(store, "third", [lines(4)], tenant="zenith")
    submitted(store, "fourth", [lines(1)], tenant="third")
    submitted(store, "ended", [lines(9)], tenant="zenith")
    store.end("ended", Outcome.CANCELLED, now_ms=5)
    about = [{"weight": 2.0, "waiting": 6}, {"weight": 1.0, "waiting": 4}, {"weight": 1.0, "waiting": 1}]
    named = [{"tenant": name} | one for name, one in zip(("acme", "zenith", "third"), about, strict=True)]
    assert store.shares(3) == [{**one, "running": 0, "share": None} for one in named]
    next_segment(store, "first")
    next_segment(store, "third")
    assert store.shares(2) == [
        {"tenant": "zenith", "weight": 1.0, "running": 4, "waiting": 0, "share": 4 / 6},
        {"tenant": "acme", "weight": 2.0, "running": 2, "waiting": 4, "share": 2 / 6},
    ]


@pytest.mark.slow
def test_workers_that_write_at_once_lose_no_count(store: Jobs) -> None:
    job = submitted(store, "job", [lines(2, first=1 + 2 * number) for number in range(20)])

    def work(_: int) -> int:
        count = 0
        while store.get(job).counts["pending"]:
            # PostgreSQL: two senders may choose the same segment, and one of them finds it sent.
            count += answered(store, job, segments=1)
        return count

    with ThreadPoolExecutor(4) as workers:
        assert sum(workers.map(work, range(4))) == 20
    assert counts(store, job) == {"complete": 40}


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_whatever_happens_the_counts_are_those_of_the_result_lines(store: Jobs, seed: int) -> None:
    chance = random.Random(seed)
    job_id = submitted(store, "job", [lines(4, first=1 + 4 * n, refused=[7]) for n in range(5)])
    for now_ms in range(1_000, 1_025):
        steps(store, job_id, chance, now_ms)
        job = store.get(job_id)
        assert min(job.counts.values()) >= 0, job
        assert sum(job.counts.values()) == job.total
        if job.state == State.ENDED:
            assert Counter(status for _, status in statuses(store, job_id)) == Counter(counts(store, job_id))
            assert len(statuses(store, job_id)) == job.total


def steps(store: Jobs, job_id: str, chance: random.Random, now_ms: int) -> None:
    """One random step of a user, the feeder or a worker."""
    if store.get(job_id).state == State.ENDED:
        chosen = chance.sample(["failed", "expired", "degraded"], chance.randint(1, 3))
        try:
            store.retry(job_id, chosen, now_ms=now_ms)
        except WrongState:
            store.retry(job_id, ["failed", "expired", "degraded"], now_ms=now_ms)
        return
    if chance.random() < 0.15:
        store.lapse(job_id, now_ms=now_ms + 10 * LEASE_MS)
        store.end(job_id, chance.choice(list(Outcome)), now_ms=now_ms)
        return
    sent = store.send(job_id, now_ms=now_ms, lease_ms=LEASE_MS)
    if sent is None:
        store.lapse(job_id, now_ms=now_ms + 10 * LEASE_MS)
        store.end(job_id, Outcome.COMPLETED, now_ms=now_ms)
    elif chance.random() < 0.8:
        segment = store.take(job_id, *sent[:2], now_ms=now_ms, lease_ms=LEASE_MS)
        assert segment is not None
        remaining = [place for place in segment.remaining if chance.random() < 0.2]
        kinds = {place: chance.choice(["complete", "failed", "degraded"]) for place in segment.remaining}
        results = {place: result(kind) for place, kind in kinds.items() if place not in remaining}
        store.write(segment, results, remaining=remaining, again_at_ms=now_ms if remaining else None)


@pytest.mark.slow
def test_a_locked_database_is_named_and_nothing_is_half_done(store: Jobs, database_url: str) -> None:
    if not database_url.startswith("sqlite"):
        pytest.skip("PostgreSQL locks rows")
    job = submitted(store, "job", [lines(2)])
    with sqlite3.connect(str(make_url(database_url).database)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JobsUnavailable, match="database is locked"):
            store.send(job, now_ms=1, lease_ms=LEASE_MS)
        other.rollback()
    assert counts(store, job) == {"pending": 2}
