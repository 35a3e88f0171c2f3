"""The health checks of a container: alive is a fresh sign of life, ready is that of who takes work."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from monitoring.healthy import complaint, main
from tests.support.servers.redis_server import RedisServer


@pytest.fixture(autouse=True)
def _server(redis_server: RedisServer, redis_client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHORALE_REDIS_URL", redis_server.url)


@pytest.mark.parametrize(("ready", "not_ready"), [(True, "None"), (False, "bm25 is not ready yet")])
def test_a_heartbeat_means_alive_and_says_whether_the_worker_is_ready(
    ready: bool, not_ready: str, redis_client: Redis
) -> None:
    for question in ("alive", "ready"):
        assert "no sign of life" in str(complaint(question, "bm25"))
    redis_client.set("chorale:heartbeat:bm25", json.dumps({"at": 0, "ready": ready, "pid": 1}))
    assert complaint("alive", "bm25") is None
    assert str(complaint("ready", "bm25")) == not_ready


def test_a_worker_that_is_not_ready_says_what_is_missing(redis_client: Redis) -> None:
    seconds: Any = redis_client.time()
    wire = {"at": seconds[0] * 1_000, "ready": False, "missing": ["no model", "the store local: wrong key"]}
    redis_client.set("chorale:heartbeat:bm25", json.dumps(wire))
    assert complaint("ready", "bm25") == "bm25 is not ready yet: no model; the store local: wrong key"


def test_a_worker_is_not_ready_by_the_heartbeat_of_an_earlier_container(redis_client: Redis) -> None:
    wire = {"at": 0, "ready": True, "about": {"host": "0123456789ab"}}
    redis_client.set("chorale:heartbeat:bm25", json.dumps(wire))
    assert complaint("ready", "bm25") == "the heartbeat of bm25 is that of another host, 0123456789ab"
    wire["about"] = {"host": socket.gethostname()}
    redis_client.set("chorale:heartbeat:bm25", json.dumps(wire))
    assert complaint("ready", "bm25") is None


def test_while_redis_is_away_a_worker_is_neither_ready_nor_dead(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CHORALE_REDIS_URL", "redis://127.0.0.1:1/0")
    assert complaint("alive", "bm25") is None
    assert complaint("ready", "bm25") == "Redis does not answer"
    monkeypatch.delenv("CHORALE_REDIS_URL")
    monkeypatch.setenv("CHORALE_HOME", str(tmp_path))
    assert complaint("alive", "bm25") is None
    assert "there is no Redis server" in str(complaint("ready", "bm25"))


@pytest.mark.slow
def test_a_hung_redis_makes_a_worker_neither_dead_nor_ready(redis_server: RedisServer) -> None:
    redis_server.pause()
    try:
        assert complaint("alive", "bm25") is None
        assert complaint("ready", "bm25") == "Redis does not answer"
    finally:
        redis_server.resume()


@pytest.mark.parametrize("arguments", [[], ["bm25"], ["well", "bm25"]])
def test_wrong_arguments_print_the_usage(arguments: list[str]) -> None:
    assert "alive|ready NAME" in str(main(arguments))
