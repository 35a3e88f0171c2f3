"""The way without rendered messages: an unmodified celery.chord over the same ledger gives the same answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from celery.result import AsyncResult
from chorale_client import make_request

from tasks.request.retrieve import submit
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def plain() -> Iterator[RunningPipeline]:
    """A worker of the vector branch, and one of everything else."""
    with (
        RedisServer() as server,
        RunningPipeline(server, queues=["chorale.vector"], environment={"CHORALE_LEAN": "false"}) as running,
    ):
        running.index()
        running.start("others", queue="chorale.retrieve,chorale.bm25,chorale.hyde,chorale.fusion")
        running.wait_ready()
        yield running


def test_a_plain_chord_answers_with_all_branches(plain: RunningPipeline) -> None:
    assert not plain.app.fanout.is_lean
    answer = plain.client().retrieve("ERR-4711", cache="bypass", timeout_s=20)
    assert (answer.status, answer.hits[0].document_id) == ("complete", "error")
    assert set(answer.hits[0].found_by) == {"bm25", "vector", "hyde"}


def test_a_plain_chord_leaves_no_subscription_and_no_key_behind(plain: RunningPipeline) -> None:
    channels = set(plain.redis.pubsub_channels())
    for _ in range(10):
        request = make_request("ERR-4711", cache="bypass", timeout_s=20)
        submit(plain.resources, plain.app.fanout, request)
        assert AsyncResult(request.request_id, app=plain.app).get(timeout=20)["status"] == "complete"
        left = plain.redis.keys(f"*{request.request_id}*")
        assert left == [f"celery-task-meta-{request.request_id}".encode()]
    assert {name for name in plain.redis.pubsub_channels() if b"celery-task-meta" in name} <= channels


def test_a_part_that_is_lost_is_sent_again_by_the_plain_way_too(plain: RunningPipeline) -> None:
    plain.kill("chorale.vector")
    request = make_request("ERR-4711", cache="bypass", timeout_s=60)
    submit(plain.resources, plain.app.fanout, request)
    plain.redis.delete("chorale.vector")
    plain.start("chorale.vector")
    assert plain.client().answer(request.request_id, wait_s=61).status == "complete"


def test_a_plain_chord_without_a_branch_worker_ends_in_time(plain: RunningPipeline) -> None:
    plain.kill("chorale.vector")
    answer = plain.client().retrieve("ERR-4711", cache="bypass", timeout_s=3)
    assert [(one.where, one.reason) for one in answer.degraded] == [("search.vector", "not_started")]
    assert answer.took_ms <= 4_000
