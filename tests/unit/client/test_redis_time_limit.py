"""A caller's limit shortens every wait on its connections, and on nobody else's."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from chorale_client.client import FINISH_S
from chorale_client.connections.time_limit import TimeLimit, enforce
from chorale_client.ledger import GRACE_S
from redis import Redis
from redis.exceptions import TimeoutError as RedisTimeout

from tests.support.servers.redis_server import RedisServer


def shortened(limit: TimeLimit, timeout_s: float | None = None) -> float:
    remaining_s = limit.shorten(timeout_s)
    assert remaining_s is not None
    return remaining_s


def test_within_a_limit_the_smallest_of_timeout_and_times_left_applies_to_one_thread() -> None:
    limit = TimeLimit()
    elsewhere: list[float | None] = []
    now_s = time.monotonic()
    with limit.until(now_s + 10), limit.until(now_s + 100):
        assert limit.shorten(5.0) == 5.0
        assert 0 < shortened(limit) <= 10
        thread = threading.Thread(target=lambda: elsewhere.append(limit.shorten(50.0)))
        thread.start()
        thread.join()
    assert (elsewhere, limit.shorten(5.0), limit.shorten(None)) == ([50.0], 5.0, None)
    with limit.until(now_s - 1):
        assert 0 < shortened(limit, 5.0) < 0.01, "a timeout of zero would mean: do not block"


def test_the_last_wait_of_a_caller_ends_240_ms_after_its_deadline_at_the_latest() -> None:
    assert GRACE_S + FINISH_S <= 0.24


# Without the limit, the clients of these tests would wait for ever.


def test_an_unanswered_tls_handshake_ends_with_the_limit() -> None:
    limit = TimeLimit()
    with socket.create_server(("localhost", 0)) as silent:
        url = f"rediss://localhost:{silent.getsockname()[1]}"
        with Redis.from_url(url, socket_timeout=None, socket_connect_timeout=None) as client:
            enforce(limit, client)
            with limit.until(time.monotonic() + 0.1), pytest.raises(RedisTimeout):
                client.ping()


def test_a_command_on_a_stopped_server_ends_with_the_limit(own_redis_server: RedisServer) -> None:
    limit = TimeLimit()
    with Redis.from_url(own_redis_server.url, socket_timeout=None, socket_connect_timeout=None) as client:
        enforce(limit, client)
        client.ping()
        own_redis_server.pause()
        for _ in range(2):  # the second time on a new connection, whose greeting nobody answers
            with limit.until(time.monotonic() + 0.1), pytest.raises(RedisTimeout):
                client.ping()
        own_redis_server.resume()
        assert client.ping()
