"""What one sweeper does at a time, and what it does besides."""

from __future__ import annotations

import threading

import pytest
import redis
from chorale_client import Chorale, make_request
from chorale_client.ledger import CallersLedger

from assembly.pipeline import load_pipeline
from assembly.resources import Resources
from config.settings import Settings
from tasks.registration import make_app
from tasks.sweeping import sweeper
from tests.support.servers.redis_server import RedisServer


def test_a_plan_that_takes_long_keeps_no_other_request_from_its_end(
    redis_server: RedisServer, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the models' marks must be read first, or a database is silent."""
    plans, go_on, stop = threading.Event(), threading.Event(), threading.Event()

    def slow(*_: object) -> bool:
        plans.set()
        return go_on.wait(30)

    monkeypatch.setattr(sweeper, "plan_accepted", slow)
    resources = Resources(Settings(embedder="none"), load_pipeline(), redis_server.url)
    one = sweeper.Sweeper(resources, make_app(resources).fanout, interval_s=0.02)
    thread = threading.Thread(target=one.run, args=(stop,))
    thread.start()
    try:
        ledger = CallersLedger(redis_client)
        ledger.accept(make_request("bread", timeout_s=30))
        assert plans.wait(10), "nobody else plans it"
        short = ledger.accept(make_request("salt", timeout_s=0.2)).request_id
        answer = Chorale(redis_server.url).answer(short, wait_s=10)
        assert not go_on.is_set()
    finally:
        go_on.set()
        stop.set()
        thread.join()
    assert [(one.where, one.reason) for one in answer.degraded] == [("plan", "not_started")]
