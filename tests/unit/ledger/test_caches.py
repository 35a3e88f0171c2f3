from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from redis import Redis

from ledger.caches import CacheUnavailable, NullCache, RedisCache
from tests.support.servers.redis_server import RedisServer


@pytest.fixture
def cache(redis_client: Redis) -> RedisCache:
    return RedisCache(redis_client)


def test_stored_keys_are_found_once_and_missing_ones_left_out(cache: RedisCache) -> None:
    cache.put_many({}, ttl_s=60)
    assert cache.get_many([]) == cache.get_many(["never stored"]) == {}
    cache.put_many({"a": b"1", "b": b"2"}, ttl_s=60)
    assert cache.get_many(["b", "c", "a", "a"]) == {"a": b"1", "b": b"2"}


def test_a_new_value_replaces_the_old_one(cache: RedisCache) -> None:
    cache.put_many({"key": b"first"}, ttl_s=60)
    cache.put_many({"key": b"second"}, ttl_s=60)
    assert cache.get_many(["key"]) == {"key": b"second"}


def test_any_bytes_under_any_key_are_returned_unchanged(cache: RedisCache) -> None:
    values = {
        "empty": b"",
        "zeros": b"\0\0",
        "all": bytes(range(256)),
        "ключ: 鍵 {key}\n": b"x" * 100_000,
    }
    cache.put_many(values, ttl_s=60)
    assert cache.get_many(list(values)) == values


def test_a_value_with_a_ttl_of_0_is_not_stored(cache: RedisCache) -> None:
    cache.put_many({"gone": b"1"}, ttl_s=0)
    assert cache.get_many(["gone"]) == {}


def test_threads_may_share_one_instance(cache: RedisCache) -> None:
    def put_and_get(number: int) -> bool:
        mine = {f"{number}:{at}": f"{number}".encode() for at in range(20)}
        cache.put_many(mine, ttl_s=60)
        return cache.get_many(list(mine)) == mine

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(put_and_get, range(40)))


def test_every_key_has_our_prefix_and_a_ttl_and_expired_ones_are_left_out(redis_client: Redis) -> None:
    cache = RedisCache(redis_client)
    cache.put_many({"a": b"1", "b": b"2"}, ttl_s=60.5)
    assert sorted(redis_client.keys()) == [b"chorale:cache:a", b"chorale:cache:b"]
    assert 0 < redis_client.pttl("chorale:cache:b") <= 60_500
    redis_client.pexpire("chorale:cache:a", 0)
    redis_client.persist("chorale:cache:b")
    redis_client.rpush("chorale:cache:list", "not ours")
    assert cache.get_many(["a", "b", "list"]) == {"b": b"2"}


def test_twenty_keys_are_one_command_to_read(redis_client: Redis) -> None:
    cache = RedisCache(redis_client)
    keys = [str(number) for number in range(20)]
    cache.put_many(dict.fromkeys(keys, b"x"), ttl_s=60)
    redis_client.config_resetstat()
    cache.get_many(keys)
    commands = redis_client.info("commandstats")
    assert commands["cmdstat_mget"]["calls"] == 1
    assert "cmdstat_get" not in commands


def test_a_silent_or_dead_redis_is_cache_unavailable_and_comes_back(own_redis_server: RedisServer) -> None:
    cache = RedisCache(own_redis_server.client(socket_timeout=2, retry=None))
    own_redis_server.pause()
    with pytest.raises(CacheUnavailable):
        cache.get_many(["a"])
    own_redis_server.resume()
    own_redis_server.kill()
    with pytest.raises(CacheUnavailable, match="reading"):
        cache.get_many(["a"])
    with pytest.raises(CacheUnavailable, match="writing"):
        cache.put_many({"a": b"1"}, ttl_s=60)
    own_redis_server.start()
    cache.put_many({"a": b"1"}, ttl_s=60)
    assert cache.get_many(["a"]) == {"a": b"1"}


@pytest.mark.parametrize("own_redis_server", [{"maxmemory": "1mb"}], indirect=True)
def test_a_full_redis_is_cache_unavailable(own_redis_server: RedisServer) -> None:
    cache = RedisCache(own_redis_server.client(retry=None))
    with pytest.raises(CacheUnavailable, match="writing"):
        cache.put_many({str(number): b"x" * 500_000 for number in range(5)}, ttl_s=60)


def test_the_null_cache_accepts_everything_and_stores_nothing() -> None:
    cache = NullCache()
    cache.put_many({"a": b"1"}, ttl_s=60)
    assert cache.get_many(["a", "b"]) == {}
