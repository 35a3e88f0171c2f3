"""A caller's limit shortens every wait on its connections, and on nobody else's."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from chorale_client.time_limit import TimeLimit, keep_to
from redis import Redis
from redis.exceptions import TimeoutError as RedisTimeout

from tests.support.servers.redis_server import RedisServer


def test_outside_of_a_limit_a_timeout_is_unchanged() -> None:
    limit = TimeLimit()
    assert (limit.shorten(5.0), limit.shorten(None)) == (5.0, None)


def test_within_a_limit_the_smaller_of_timeout_and_time_left_applies() -> None:
    limit = TimeLimit()
    with limit.until(time.monotonic() + 100):
        assert limit.shorten(5.0) == 5.0
        left_s = limit.shorten(None)
        assert left_s is not None
        assert 99 < left_s <= 100
    assert limit.shorten(None) is None


def test_the_earlier_of_two_limits_applies() -> None:
    limit = TimeLimit()
    now_s = time.monotonic()
    with limit.until(now_s + 10), limit.until(now_s + 100):
        left_s = limit.shorten(None)
        assert left_s is not None
        assert left_s <= 10


def test_a_limit_that_is_over_leaves_a_positive_timeout() -> None:
    """A timeout of zero would mean: do not block."""
    limit = TimeLimit()
    with limit.until(time.monotonic() - 1):
        left_s = limit.shorten(5.0)
    assert left_s is not None
    assert 0 < left_s < 0.01


def test_a_limit_applies_to_one_thread() -> None:
    limit, found = TimeLimit(), []
    with limit.until(time.monotonic() + 1):
        thread = threading.Thread(target=lambda: found.append(limit.shorten(5.0)))
        thread.start()
        thread.join()
    assert found == [5.0]


# Without the limit, the clients of these tests would wait for ever.


def test_an_unanswered_tls_handshake_ends_with_the_limit() -> None:
    limit = TimeLimit()
    with socket.create_server(("localhost", 0)) as silent:
        url = f"rediss://localhost:{silent.getsockname()[1]}"
        with Redis.from_url(url, socket_timeout=None, socket_connect_timeout=None) as client:
            keep_to(limit, client)
            with limit.until(time.monotonic() + 0.1), pytest.raises(RedisTimeout):
                client.ping()


def test_a_command_on_a_stopped_server_ends_with_the_limit(own_redis_server: RedisServer) -> None:
    limit = TimeLimit()
    with Redis.from_url(own_redis_server.url, socket_timeout=None, socket_connect_timeout=None) as client:
        keep_to(limit, client)
        client.ping()
        own_redis_server.pause()
        for _ in range(2):  # the second time on a new connection, whose greeting nobody answers
            with limit.until(time.monotonic() + 0.1), pytest.raises(RedisTimeout):
                client.ping()
        own_redis_server.resume()
        assert client.ping()
