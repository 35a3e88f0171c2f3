"""The throw-away Redis server keeps what the tests count on."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from tests.support.servers.redis_server import RedisServer, free_port


def test_a_server_answers_on_its_socket_and_leaves_nothing_behind() -> None:
    with RedisServer() as server:
        folder, pid = server.folder, server.pid
        assert server.client().ping()
    assert not folder.exists()
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("own_redis_server", [{"appendonly": True, "appendfsync": "always"}], indirect=True)
def test_an_append_only_server_remembers_after_a_kill(own_redis_server: RedisServer) -> None:
    own_redis_server.client().set("kept", "yes")
    own_redis_server.kill()
    with pytest.raises(redis.ConnectionError):
        own_redis_server.client().ping()
    assert own_redis_server.start().client().get("kept") == b"yes"


def test_a_paused_server_does_not_answer_until_it_is_resumed(own_redis_server: RedisServer) -> None:
    own_redis_server.pause()
    with pytest.raises(redis.TimeoutError):
        own_redis_server.client(socket_timeout=0.05, retry=None).ping()
    own_redis_server.resume()
    assert own_redis_server.client().ping()


def test_a_server_listens_on_tcp_too_where_a_port_is_given() -> None:
    with RedisServer(port=free_port()) as server:
        assert redis.Redis.from_url(server.tcp_url).ping()


@pytest.mark.parametrize("own_redis_server", [{"maxmemory": "3mb"}], indirect=True)
def test_a_full_server_refuses_writes_and_evicts_nothing(own_redis_server: RedisServer) -> None:
    client = own_redis_server.client()
    client.set("first", "kept")
    with pytest.raises(redis.OutOfMemoryError):
        write_five_megabytes(client)
    assert client.get("first") == b"kept"


def test_the_two_fixtures_are_two_servers(redis_client: redis.Redis, own_redis_server: RedisServer) -> None:
    own_redis_server.client().set("mine", "1")
    assert redis_client.get("mine") is None


def write_five_megabytes(client: redis.Redis) -> None:
    for number in range(50):
        client.set(f"filler:{number}", b"x" * 100_000)
