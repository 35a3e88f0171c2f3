"""The way without rendered messages: an unmodified celery.chord over the same ledger gives the same answers.

`tests/faults/test_killed_in_a_plain_chord.py` kills its processes.
"""

from __future__ import annotations

from typing import cast

import pytest
from celery.result import AsyncResult
from chorale_client import make_request

from tasks.request.retrieve import submit
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer


@pytest.mark.slow
def test_a_plain_chord_answers_with_all_branches_and_leaves_no_subscription_and_no_key_behind() -> None:
    with (
        RedisServer() as server,
        RunningPipeline(server, environment={"CHORALE_LEAN": "false"}) as plain,
    ):
        plain.index()
        assert not plain.app.fanout.is_lean
        answer = plain.client().retrieve("ERR-4711", cache="bypass", timeout_s=20)
        assert (answer.status, answer.hits[0].document_id) == ("complete", "error")
        assert set(answer.hits[0].found_by) == {"bm25", "vector", "hyde"}

        channels = set(plain.redis.pubsub_channels())
        for _ in range(10):
            request = make_request("ERR-4711", cache="bypass", timeout_s=20)
            submit(plain.resources, plain.app.fanout, request)
            assert AsyncResult(request.request_id, app=plain.app).get(timeout=20)["status"] == "complete"
            keys = cast("list[bytes]", plain.redis.keys(f"*{request.request_id}*"))
            remaining = {key.decode() for key in keys}
            parts = {
                f"celery-task-meta-{request.request_id}:{branch}" for branch in ("bm25", "vector", "hyde")
            }
            assert remaining == parts | {
                f"celery-task{kind}-meta-{request.request_id}" for kind in ("", "set")
            }
        assert {name for name in plain.redis.pubsub_channels() if b"celery-task-meta" in name} <= channels
