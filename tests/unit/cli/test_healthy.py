"""The health check of a container: a ready worker with a fresh sign of life, and nothing less."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from cli.healthy import complaint
from tests.redis_server import RedisServer


@pytest.fixture(autouse=True)
def _server(redis_server: RedisServer, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHORALE_REDIS_URL", redis_server.url)


@pytest.mark.parametrize(
    ("age_s", "ready", "says"),
    [(0, True, None), (0, False, "not ready"), (60, True, "last sign of life")],
)
def test_a_worker_is_healthy_when_it_is_ready_and_was_seen_lately(
    age_s: int, ready: bool, says: str | None, redis_client: redis.Redis
) -> None:
    seconds: Any = redis_client.time()
    at_ms = (seconds[0] - age_s) * 1_000
    redis_client.set("chorale:heartbeat:bm25", json.dumps({"at": at_ms, "ready": ready, "pid": 1}))
    found = complaint("bm25")
    assert found is None if says is None else says in str(found)


def test_a_worker_that_was_never_seen_is_not_healthy() -> None:
    assert "no sign of life" in str(complaint("bm25"))


def test_without_redis_nobody_is_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHORALE_REDIS_URL", "redis://127.0.0.1:1/0")
    assert complaint("bm25") == "Redis does not answer"
