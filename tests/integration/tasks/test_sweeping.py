"""A sweeper sends again what was lost, plans what nobody plans, and lets nothing wait for a slow plan: without workers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from chorale_client import Chorale, make_request
from chorale_client.keys import entry_key
from chorale_client.ledger import CallersLedger
from chorale_client.wire_names import QUEUE_RETRIEVE

from config.settings import Settings
from tasks.celery_internals.result_backend import part_id
from tasks.registration import make_app
from tasks.sweeping import sweeper
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

BRANCHES = ("bm25", "vector", "hyde")


@pytest.fixture
def resources(
    redis_server: RedisServer, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> Resources:
    monkeypatch.setattr(Resources, "fingerprints", {"embedder": "none"})
    return Resources(Settings(embedder="none"), load_pipeline(), redis_server.url)


@pytest.fixture
def sweeping(resources: Resources) -> Iterator[threading.Event]:
    """A running sweeper, and the event that stops it."""
    stop = threading.Event()
    one = sweeper.Sweeper(resources, make_app(resources).fanout, interval_s=0.02)
    thread = threading.Thread(target=one.run, args=(stop,))
    thread.start()
    yield stop
    stop.set()
    thread.join()


def ids(client: redis.Redis, queue: str) -> list[str]:
    """The task ids of the waiting messages."""
    raw: Any = client.lrange(queue, 0, -1)
    return [json.loads(message)["headers"]["id"] for message in raw]


def test_a_request_that_nobody_plans_is_planned_by_the_sweeper(
    redis_client: redis.Redis, sweeping: threading.Event
) -> None:
    request_id = CallersLedger(redis_client).accept(make_request("bread", timeout_s=60)).request_id
    parts = [[part_id(request_id, branch)] for branch in BRANCHES]
    until(lambda: [ids(redis_client, f"chorale.{branch}") for branch in BRANCHES] == parts)
    # A worker has its time first.
    assert redis_client.llen(QUEUE_RETRIEVE) == 2
    assert redis_client.hget(entry_key(request_id), "state") == b"planned"


def test_a_plan_that_takes_long_keeps_no_other_request_from_its_end(
    redis_server: RedisServer,
    redis_client: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
    sweeping: threading.Event,
) -> None:
    """As where the models' marks must be read first, or a database is silent."""
    plans, go_on = threading.Event(), threading.Event()

    def slow(*_: object) -> bool:
        plans.set()
        return go_on.wait(120)

    monkeypatch.setattr(sweeper, "plan_accepted", slow)
    try:
        ledger = CallersLedger(redis_client)
        ledger.accept(make_request("bread", timeout_s=60))
        assert plans.wait(60), "nobody else plans it"
        short = ledger.accept(make_request("salt", timeout_s=0.2)).request_id
        answer = Chorale(redis_server.url).answer(short, wait_s=60)
        assert not go_on.is_set()
    finally:
        go_on.set()
    assert [(one.where, one.reason) for one in answer.degraded] == [("plan", "not_started")]
