"""Connections over TLS share what costs the most to make."""

from __future__ import annotations

import socket
import ssl
import time

import pytest
from chorale_client.connections import idle
from chorale_client.connections.tls import CONTEXT_TTL_S, share_context
from redis import Redis
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import TimeoutError as RedisTimeout


def test_the_connections_of_a_pool_have_one_context_until_certificates_may_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[ssl.SSLContext] = []
    create_default_context = ssl.create_default_context

    def make() -> ssl.SSLContext:
        made.append(create_default_context())
        return made[-1]

    monkeypatch.setattr(ssl, "create_default_context", make)
    with socket.create_server(("localhost", 0)) as silent:
        url = f"rediss://localhost:{silent.getsockname()[1]}"
        with Redis.from_url(url, socket_timeout=0.05, socket_connect_timeout=0.05) as client:
            share_context(client.connection_pool)
            for _ in range(3):
                with pytest.raises((RedisTimeout, NoConnection)):
                    client.ping()
            assert len(made) == 1
            monkeypatch.setattr(idle, "now_s", lambda: time.monotonic() + CONTEXT_TTL_S)
            with pytest.raises((RedisTimeout, NoConnection)):
                client.ping()
            assert len(made) == 2
