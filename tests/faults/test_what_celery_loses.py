"""A fault for which a plain Celery chord fails or waits for ever costs a user one branch."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator

import pytest
from chorale_client import make_request
from chorale_client.keys import ENTRY

from tasks.celery_internals.result_backend import part_id
from tasks.request.retrieve import submit
from tests.support.faults.effects import (
    AT_ONCE_MS,
    REPORTED,
    UNREPORTED,
    Case,
    costs_only_its_branch,
    failed_or_lost,
)
from tests.support.faults.observers import asking, channels, mentions, order_by, seen, seen_of
from tests.support.pipelines.branch_faults import FORKED, QUEUE, UNSERVED, forked_worker
from tests.support.pipelines.pipeline import PYTHONPATH, ROOT, RunningPipeline
from tests.support.waiting import until


@pytest.mark.parametrize("case", REPORTED.values(), ids=REPORTED)
def test_a_part_that_celery_reports_as_failed_is_named_at_once(faulty: RunningPipeline, case: Case) -> None:
    failed_or_lost(faulty, case)


@pytest.mark.parametrize("case", UNREPORTED.values(), ids=UNREPORTED)
def test_a_part_that_celery_loses_costs_its_branch_and_no_time(faulty: RunningPipeline, case: Case) -> None:
    subscribed = channels(faulty.redis)

    request_id = failed_or_lost(faulty, case).request.request_id

    # What Celery reads of request and parts, which expires.
    results = (f"celery-task-meta-{request_id}", f"celery-taskset-meta-{request_id}")
    until(lambda: not [key for key in mentions(faulty.redis, request_id) if not key.startswith(results)])
    until(lambda: channels(faulty.redis) <= subscribed)


def test_a_branch_that_answers_at_its_second_attempt_costs_nothing(faulty: RunningPipeline) -> None:
    answer = seen(faulty, branches=["bm25", "retries_once"], timeout_s=20)

    assert (answer.status, answer.branches) == ("complete", {"bm25", "retries_once"})


def test_a_branch_that_was_revoked_before_it_began_is_named_as_cancelled(faulty: RunningPipeline) -> None:
    healthy = order_by(faulty, ["bm25"])
    request = make_request("ERR-4711", branches=["bm25", "fickle"], timeout_s=20, cache="bypass")
    replies = faulty.app.control.revoke(
        part_id(request.request_id, "fickle"), reply=True, timeout=20, limit=1, destination=worker_of(QUEUE)
    )
    assert replies, "no worker heard of it"

    submit(faulty.resources, faulty.app.fanout, request)
    answer = seen_of(faulty, request)

    costs_only_its_branch(answer, Case("fickle", "cancelled", "revoked"), healthy)
    assert answer.answer.took_ms < AT_ONCE_MS


def worker_of(queue: str) -> list[str]:
    """Returns the worker by its name in Celery."""
    return [f"{queue}@{socket.gethostname()}"]


def test_a_branch_whose_message_is_dropped_twice_is_sent_a_third_time(faulty: RunningPipeline) -> None:
    """A broker may lose the message, or a worker may die between taking and beginning it."""
    request = make_request("ERR-4711", branches=["bm25", "unserved"], timeout_s=60, cache="bypass")
    submit(faulty.resources, faulty.app.fanout, request)
    for _ in range(2):
        assert faulty.redis.brpop([UNSERVED], timeout=30), "it was not sent again"
    assert faulty.redis.blmove(UNSERVED, QUEUE, 30), "it was not sent again"
    answer = seen_of(faulty, request)

    assert (answer.status, answer.branches) == ("complete", {"bm25", "unserved"})


def test_the_waiting_caller_ends_a_request_whose_entry_is_gone(faulty: RunningPipeline) -> None:
    """The entry was evicted, expired or flushed, and nothing else knows the request."""
    future = asking(faulty, branches=["bm25", "ignores"], timeout_s=3)
    faulty.redis.delete(*until(lambda: list(faulty.redis.scan_iter(f"{ENTRY}*"))))

    answer = future.result(60)
    assert (answer.status, answer.missing) == ("failed", [("plan", "not_started")])


@pytest.fixture(scope="module")
def forked(faulty_pipeline: RunningPipeline) -> Iterator[None]:
    """A worker with a pool of one process, as `celery -A tasks.app worker` starts it."""
    environment = {**os.environ, **faulty_pipeline.environment, "PYTHONPATH": PYTHONPATH}
    worker = subprocess.Popen(forked_worker(), cwd=ROOT, env=environment)
    try:
        ping = faulty_pipeline.app.control.ping
        until(lambda: worker.poll() or ping(destination=worker_of(FORKED), timeout=1, limit=1), 60)
        assert worker.poll() is None
        yield
    finally:
        worker.terminate()
        worker.wait(20)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case("sleeps", "error", "TimeLimitExceeded"), id="a branch over its own time limit"),
        pytest.param(Case("killed", "error", "WorkerLostError"), id="a branch whose process is killed"),
    ],
)
@pytest.mark.usefixtures("forked")
def test_a_part_whose_process_is_lost_is_named_at_once(faulty: RunningPipeline, case: Case) -> None:
    failed_or_lost(faulty, case)


@pytest.mark.usefixtures("forked")
def test_a_branch_that_is_revoked_while_it_runs_is_named_as_cancelled(faulty: RunningPipeline) -> None:
    healthy = order_by(faulty, ["bm25"])
    request = make_request("ERR-4711", branches=["bm25", "hangs"], timeout_s=20, cache="bypass")
    submit(faulty.resources, faulty.app.fanout, request)
    until(lambda: faulty.redis.hexists(ENTRY + request.request_id, "started:hangs"))
    faulty.app.control.revoke(part_id(request.request_id, "hangs"), terminate=True, signal="SIGKILL")

    costs_only_its_branch(seen_of(faulty, request), Case("hangs", "cancelled", "terminated"), healthy)
