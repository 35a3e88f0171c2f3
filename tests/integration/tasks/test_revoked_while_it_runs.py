"""Celery's workers hear of `revoke()`; those of Chorale end a request that runs, and those of an application leave it to them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import redis
from celery import Celery
from celery.worker.control import revoke
from chorale_client.ledger import CallersLedger
from pydantic_core import from_json

from config.settings import Settings
from tasks.registration import make_app
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.integration.ledger.real import Real
from tests.support.servers.redis_server import RedisServer


def heard_by_a_worker_of(app: Celery, task_id: str) -> None:
    """What a worker of the application does with the message of `AsyncResult(task_id).revoke()`."""
    revoke(SimpleNamespace(app=app), task_id)


@pytest.fixture
def running(redis_client: redis.Redis) -> str:
    """The id of a request whose chord was sent."""
    return Real(redis_client).accepted("bm25").request_id


def test_a_worker_of_chorale_cancels_a_request_that_runs(
    redis_server: RedisServer, redis_client: redis.Redis, running: str
) -> None:
    app = make_app(Resources(Settings(embedder="none"), load_pipeline(), redis_server.url))
    heard_by_a_worker_of(app, running)
    ended = CallersLedger(redis_client).result(running)
    assert ended is not None
    assert from_json(ended)["result"]["status"] == "cancelled"


def test_a_worker_of_an_application_leaves_a_request_that_runs_to_chorale(
    redis_server: RedisServer, redis_client: redis.Redis, running: str
) -> None:
    with Celery("shop", backend=redis_server.celery_url, set_as_current=False) as app:
        heard_by_a_worker_of(app, running)
        assert app.AsyncResult(running).state == "STARTED"
        # A Redis connection warns if the garbage collector takes its socket first.
        app.backend.client.connection_pool.disconnect()
    assert CallersLedger(redis_client).state(running) == "planned"
