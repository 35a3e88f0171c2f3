"""Whatever dies or hangs while a job runs, every line has exactly one result and the counts sum to the total."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from chorale_client.wire_names import TASK_ANSWER_LINES
from sqlalchemy import update

from config.redis_client import redis_ms
from models.tables.installation import job_table
from records.jobs.job import Line, Outcome, State
from tests.support.pipelines import failpoints
from tests.support.pipelines.bulk import (
    BULK,
    HASTE,
    documents,
    line,
    results,
    reviving,
    submit,
    wait_done,
    wait_ended,
)
from tests.support.pipelines.kinds import kinds_with
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

WORKERS, SWEEPERS = ("bulk.1", "bulk.2"), ("sweeper.1", "sweeper.2")
SLOW = "test:slow"
"""The Redis key with the seconds by which each search is slowed down."""
MANY = 240
"""Lines for which two workers need seven seconds, if each segment takes half a second."""

PRELOAD = f"""
import os, signal, time
from tasks.branches.searches import search_bm25
from redis.exceptions import RedisError
from tests.support.pipelines import failpoints
from tests.support.pipelines.kinds import declare

def slow_s(redis):
    try:
        return float(redis.get("{SLOW}") or 0)
    except RedisError:  # the test has killed it, and no branch of the service needs it
        return 0

def deadly(part):
    time.sleep(slow_s(part.resources.redis))
    if any("poison" in text for text in part.texts):
        os.kill(os.getpid(), signal.SIGKILL)
    return search_bm25(part)

declare(deadly=deadly)
failpoints.install(failpoints.JOB_PLACES)
{HASTE}
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPipeline]:
    """Two bulk workers without a model, two sweepers, and a Redis that keeps its data."""
    file = tmp_path_factory.mktemp("deadly") / "pipeline.toml"
    file.write_text(
        '[stores.local]\nkind = "embedded"\n'
        '[branches.deadly]\nkind = "deadly"\ngroup = "lexical"\nstore = "local"\n'
    )
    with (
        RedisServer(appendonly=True) as server,
        RunningPipeline(
            server, queues=[], pipeline_file=file, kinds=kinds_with("deadly"), preload=PRELOAD
        ) as pipeline,
    ):
        pipeline.index()
        for worker in WORKERS:
            pipeline.start(worker, queue=BULK)
        for sweeper in SWEEPERS:
            pipeline.start(sweeper)
        pipeline.wait_ready()
        yield pipeline


@pytest.fixture
def whole(running: RunningPipeline) -> Iterator[RunningPipeline]:
    """Yields the pipeline; brings back its processes afterwards, and checks that the next job is whole."""
    yield running
    failpoints.disarm(running.redis)
    running.redis.delete(SLOW)
    running.revive()
    job_id = submit(running, [line(1, "bread", cache="bypass")])
    assert wait_ended(running, job_id).outcome == Outcome.COMPLETED
    assert documents(results(running, job_id)[1]) == ["bread"]


def slowed(pipeline: RunningPipeline, seconds: float) -> None:
    pipeline.redis.set(SLOW, seconds)


def some(count: int = 40) -> list[Line]:
    return [line(at, f"bread q{at}", cache="bypass") for at in range(1, count + 1)]


def is_complete(pipeline: RunningPipeline, job_id: str) -> None:
    """Checks the whole job; it may still run."""
    job = wait_ended(pipeline, job_id)
    assert job.outcome == Outcome.COMPLETED
    result_lines = results(pipeline, job_id)
    assert {(result["status"], *documents(result)) for result in result_lines.values()} == {
        ("complete", "bread")
    }


@pytest.mark.parametrize("place", failpoints.JOB_PLACES)
def test_a_worker_or_a_feeder_that_is_killed_costs_no_line(whole: RunningPipeline, place: str) -> None:
    before = failpoints.fault_counts(whole.redis).get(place, 0)
    failpoints.arm(whole.redis, place)

    job_id = submit(whole, some(), segment=8)

    failpoints.wait_for_fault(whole.redis, place, before=before)
    is_complete(whole, job_id)


@pytest.mark.parametrize("place", ["bulk.after_take", "feeder.after_send"])
def test_a_worker_or_a_feeder_that_was_taken_for_dead_does_nothing_twice(
    whole: RunningPipeline, place: str
) -> None:
    """It sleeps for twice its lease before it renews it, and another one goes on in its place."""
    failpoints.arm(whole.redis, place, "sleep")

    job_id = submit(whole, some(), segment=8)

    is_complete(whole, job_id)
    time.sleep(1.6)
    is_complete(whole, job_id)


def test_a_message_that_is_delivered_twice_is_answered_once(whole: RunningPipeline) -> None:
    slowed(whole, 0.1)
    job_id = submit(whole, some(), segment=8)
    # On a busy machine the whole job may be done before this process looks.
    until(lambda: (job := whole.resources.jobs.get(job_id)).running or job.done)

    for number in range(5):
        for attempt in (1, 2):
            message = {"job_id": job_id, "number": number, "attempt": attempt}
            whole.app.send_task(TASK_ANSWER_LINES, kwargs=message, queue=BULK)

    is_complete(whole, job_id)
    until(lambda: whole.redis.llen(BULK) == 0)
    is_complete(whole, job_id)


def began(pipeline: RunningPipeline, count: int = 80, *, slow_s: float = 0.1, **options: float) -> str:
    """Returns the id of a job of so many lines, eight in a segment, of which one segment is answered."""
    slowed(pipeline, slow_s)
    job_id = submit(pipeline, some(count), segment=8, **options)
    wait_done(pipeline, job_id, 8)
    return job_id


def restart_redis(pipeline: RunningPipeline) -> None:
    pipeline.server.kill()
    time.sleep(0.5)
    pipeline.server.start()


def lock_database(pipeline: RunningPipeline) -> None:
    with closing(sqlite3.connect(pipeline.home / "audit.db", isolation_level=None, timeout=30)) as other:
        other.execute("BEGIN IMMEDIATE")
        time.sleep(3)
        other.execute("ROLLBACK")


@pytest.mark.parametrize("strike", [restart_redis, lock_database])
def test_a_job_goes_on_when_redis_was_killed_or_the_database_was_locked(
    whole: RunningPipeline, strike: Callable[[RunningPipeline], None]
) -> None:
    job_id = began(whole)
    strike(whole)
    is_complete(whole, job_id)


def test_a_job_goes_on_when_redis_forgot_its_messages(whole: RunningPipeline) -> None:
    for worker in WORKERS:
        whole.pause(worker)  # so that the messages stay in the queue
    job_id = submit(whole, some(80), segment=8)
    until(lambda: whole.redis.delete(BULK))
    for worker in WORKERS:
        whole.resume(worker)

    is_complete(whole, job_id)


def test_a_line_that_kills_its_worker_costs_itself_alone(whole: RunningPipeline) -> None:
    job_lines = some(12)
    job_lines[5] = line(6, "poison", cache="bypass")

    with reviving(whole):
        job_id = submit(whole, job_lines, segment=8)
        job = wait_ended(whole, job_id)

    assert job.outcome == Outcome.COMPLETED
    result_lines = results(whole, job_id)
    assert result_lines.pop(6)["error"] == "the worker died while it answered this line"
    assert {tuple(documents(one)) for one in result_lines.values()} == {("bread",)}


def test_a_paused_job_sends_nothing_until_it_is_resumed(whole: RunningPipeline) -> None:
    jobs, job_id = whole.resources.jobs, began(whole, MANY, slow_s=0.5)

    jobs.pause(job_id)

    until(lambda: jobs.get(job_id).running == 0)
    paused = jobs.get(job_id)
    assert (paused.state, paused.outcome) == (State.PAUSED, None)
    assert 8 <= paused.done < MANY
    time.sleep(0.3)
    assert jobs.get(job_id).done == paused.done
    slowed(whole, 0)
    jobs.resume(job_id)
    is_complete(whole, job_id)


def ended_early(pipeline: RunningPipeline, job_id: str, outcome: Outcome) -> None:
    job = wait_ended(pipeline, job_id)
    assert job.outcome == outcome
    result_lines = results(pipeline, job_id)
    done = [number for number, result in result_lines.items() if result["status"] == "complete"]
    assert 8 <= len(done) < MANY
    assert {result_lines[number]["status"] for number in result_lines if number not in done} == {str(outcome)}
    assert all(documents(result_lines[number]) == ["bread"] for number in done)


@pytest.mark.parametrize("have_died", [False, True], ids=["alive", "dead"])
def test_a_job_cancelled_with_its_workers_alive_or_dead_keeps_what_was_answered(
    whole: RunningPipeline, have_died: bool
) -> None:
    job_id = began(whole, MANY, slow_s=0.5)
    for worker in WORKERS if have_died else ():
        whole.processes[worker].kill()

    whole.resources.jobs.cancel(job_id)

    ended_early(whole, job_id, Outcome.CANCELLED)


def test_a_job_whose_deadline_comes_keeps_what_was_answered(whole: RunningPipeline) -> None:
    job_id = began(whole, MANY, slow_s=0.5, deadline_s=600)

    # The deadline is brought forward once a segment is answered, however long that took.
    with whole.resources.jobs._writing() as connection:
        job_update = update(job_table).where(job_table.c.job_id == job_id)
        connection.execute(job_update.values(deadline_at_ms=redis_ms(whole.redis)))

    ended_early(whole, job_id, Outcome.EXPIRED)


@pytest.mark.limit_s(300)
def test_a_job_of_500_lines_that_is_struck_in_any_order_ends_whole(whole: RunningPipeline) -> None:
    chance = random.Random(13)
    slowed(whole, 0.05)
    job_id = submit(whole, some(500))
    strikes: list[Callable[[], object]] = [
        lambda: whole.processes[chance.choice(WORKERS)].kill(),
        lambda: [whole.processes[name].kill() for name in SWEEPERS],
        lambda: restart_redis(whole),
        lambda: lock_database(whole),
    ]

    with reviving(whole):
        for strike in chance.sample(strikes, len(strikes)):
            done = whole.resources.jobs.get(job_id).done
            strike()
            wait_done(whole, job_id, min(500, done + chance.randrange(25, 100)))
        wait_ended(whole, job_id, limit_s=200)

    is_complete(whole, job_id)
