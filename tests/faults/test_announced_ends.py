"""A task is called for the end of each request, although the processes that send the call are killed all the time."""

from __future__ import annotations

import json
import random
import time
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import pytest
from chorale_client import make_request
from chorale_client.keys import CALLBACK_LEASE, CALLBACKS, OUTBOX

from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

SWEEPERS = ("sweeper.1", "sweeper.2")
HASTE = "from tasks.callbacks import request_ends; request_ends.ACTING_MS = 900\n"
REQUESTS = 150


@pytest.fixture
def running() -> Iterator[RunningPipeline]:
    """Two sweepers without workers: requests end because their callers cancel them."""
    environment = {"CHORALE_ON_END_QUEUES": "shop"}
    with (
        RedisServer() as server,
        RunningPipeline(server, queues=[], environment=environment, preload=HASTE) as pipeline,
    ):
        for sweeper in SWEEPERS:
            pipeline.start(sweeper)
        pipeline.wait_ready()
        yield pipeline


def callbacks(pipeline: RunningPipeline) -> list[tuple[str, str]]:
    """Returns the task's id and the request's id of each message."""
    raw: Any = pipeline.redis.lrange("shop", 0, -1)
    messages = [json.loads(one) for one in raw]
    return [(one["headers"]["id"], json.loads(b64decode(one["body"]))[1]["request_id"]) for one in messages]


def test_every_end_is_announced_with_one_task_id_although_the_sweepers_are_killed(
    running: RunningPipeline,
) -> None:
    chosen = random.Random(11)
    ledger = running.resources.callers_ledger
    ended: set[str] = set()
    for number in range(REQUESTS):
        request = make_request("bread", on_end={"task": "shop.ended", "queue": "shop"}, timeout_s=60)
        ledger.accept(request)
        ledger.cancel(request.request_id)
        ended.add(request.request_id)
        if number % 30 == 29:
            sweeper = chosen.choice(SWEEPERS)
            running.kill(sweeper)
            running.start(sweeper)
        time.sleep(0.01)

    until(lambda: {request_id for _, request_id in callbacks(running)} == ended, 60)

    assert len({task_id for task_id, _ in callbacks(running)}) == REQUESTS
    until(lambda: running.redis.xlen(OUTBOX) == running.redis.xlen(CALLBACKS) == 0)
    # The process that sends the calls holds a lease of less than a second and renews it.
    until(lambda: running.redis.exists(CALLBACK_LEASE))
