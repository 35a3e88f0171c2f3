"""How a request ends otherwise, with real workers: cancelled, decided by a failure, hedged."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from celery.result import AsyncResult
from chorale_client import make_request
from chorale_client.keys import MOMENTS, entry_key

from audit.database import open_database
from audit.queries import AuditedRequest, show
from tasks.request.retrieve import submit
from tests.support.pipelines.kinds import kinds_with
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

KINDS = """
import time
from branches.kinds import bm25
from tests.support.pipelines.kinds import declare

def raises(part):
    raise RuntimeError("the disk is on fire")

def sleeps(part):
    part.resources.redis.set(f"begun:{part.request.request_id}", 1)
    time.sleep(1)
    return bm25.search_bm25(part)

def hangs_once(part):
    if part.resources.redis.set(f"hung:{part.request.request_id}", 1, nx=True, ex=60):
        time.sleep(4)
    return bm25.search_bm25(part)

declare(raises=raises, sleeps=sleeps, hangs_once=hangs_once)
"""

PIPELINE = """
[stores.local]
kind = "embedded"

[branches.bm25]
kind = "bm25"
group = "lexical"
store = "local"

[branches.raises]
kind = "raises"
group = "dense"
store = "local"

[branches.sleeps]
kind = "sleeps"
group = "dense"
store = "local"

[branches.hangs_once]
kind = "hangs_once"
group = "dense"
store = "local"
limit_s = 3
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPipeline]:
    """Two workers take the parts of `hangs_once`: a hedge needs somebody else."""
    file = tmp_path_factory.mktemp("policies") / "pipeline.toml"
    file.write_text(PIPELINE)
    kinds = kinds_with("raises", "sleeps", "hangs_once")
    queues = [f"chorale.{name}" for name in ("retrieve", "fusion", "bm25", "raises", "sleeps", "hangs_once")]
    with (
        RedisServer() as server,
        RunningPipeline(
            server, queues=queues, pipeline_file=file, kinds=kinds, sweeper=True, preload=KINDS
        ) as started,
    ):
        started.start("another", queue="chorale.hangs_once")
        started.index()
        started.wait_ready()
        yield started


def audited(running: RunningPipeline, request_id: str) -> AuditedRequest:
    engine = open_database(running.resources.settings.audit_database_url)
    found = until(lambda: show(engine, request_id))
    engine.dispose()
    assert found is not None
    return found


def wait_until_started(running: RunningPipeline, request_id: str, branch: str) -> None:
    until(lambda: running.redis.hexists(entry_key(request_id), f"started:{branch}"))


def test_a_cancelled_request_is_over_for_whoever_waits_and_for_the_audit(running: RunningPipeline) -> None:
    client = running.client()
    request = make_request("ERR-4711", branches=["bm25", "sleeps"], cache="bypass", timeout_s=30)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(client.ask, request)
        wait_until_started(running, request.request_id, "sleeps")
        assert client.cancel(request.request_id).status == "cancelled"
        assert waiting.result(timeout=10).status == "cancelled"
    assert AsyncResult(request.request_id, app=running.app).get(timeout=1)["status"] == "cancelled"
    row = audited(running, request.request_id)
    assert (row.status, row.ended_by) == ("cancelled", "client")
    # What still ran finds nobody, and changes nothing.
    assert client.retrieve("ERR-4711", branches=["sleeps"], cache="bypass", timeout_s=10).status == "complete"
    assert client.answer(request.request_id).status == "cancelled"
    assert running.redis.exists(entry_key(request.request_id)) == 0
    assert running.redis.zscore(MOMENTS, request.request_id) is None


def test_what_has_not_begun_of_a_cancelled_request_is_not_begun(running: RunningPipeline) -> None:
    client = running.client()
    running.pause("chorale.sleeps")
    try:
        request = make_request("ERR-4711", branches=["bm25", "sleeps"], cache="bypass", timeout_s=30)
        submit(running.resources, running.app.fanout, request)
        client.cancel(request.request_id)
    finally:
        running.resume("chorale.sleeps")
    # The queue is worked through in order.
    after = client.retrieve("ERR-4711", branches=["sleeps"], cache="bypass", timeout_s=10)
    assert running.redis.exists(f"begun:{after.request_id}") == 1
    assert running.redis.exists(f"begun:{request.request_id}") == 0


def test_the_failure_of_a_required_branch_ends_the_request_and_cancels_the_rest(
    running: RunningPipeline,
) -> None:
    answer = running.client().retrieve(
        "ERR-4711", branches=["raises", "sleeps"], on_missing="fail", cache="bypass", timeout_s=30
    )
    assert (answer.status, answer.hits) == ("failed", ())
    assert [(one.where, one.reason) for one in answer.degraded] == [
        ("search.raises", "error"),
        ("search.sleeps", "cancelled"),
    ]
    assert answer.degraded[1].detail == "'raises' had failed, which decides the request"
    row = audited(running, answer.request_id)
    assert {one.branch: one.reason for one in row.branches} == {"raises": "error", "sleeps": "cancelled"}


def test_a_branch_that_is_not_required_decides_nothing(running: RunningPipeline) -> None:
    answer = running.client().retrieve(
        "ERR-4711",
        branches=["bm25", "raises"],
        require=["bm25"],
        on_missing="fail",
        cache="bypass",
        timeout_s=30,
    )
    assert (answer.status, answer.hits[0].document_id) == ("degraded", "error")


def test_a_hedged_branch_is_answered_by_its_second_attempt(running: RunningPipeline) -> None:
    """The first takes longer than the branch's limit of 3 s; the second is sent after half of it."""
    answer = running.client().retrieve(
        "ERR-4711", branches=["bm25", "hangs_once"], hedge=True, cache="bypass", timeout_s=30
    )
    assert answer.status == "complete"
    assert "hangs_once" in answer.hits[0].found_by
    row = audited(running, answer.request_id)
    assert {one.branch: one.envelope().attempt for one in row.branches} == {"bm25": 1, "hangs_once": 2}
