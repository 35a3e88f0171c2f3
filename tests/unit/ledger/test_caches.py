from __future__ import annotations

from collections.abc import Callable

import pytest
from redis import Redis

from ledger.caches import Cache, CacheUnavailable, NullCache, RedisCache
from tests.support.servers.redis_server import RedisServer


@pytest.mark.parametrize("kind", [NullCache, RedisCache])
def test_stored_values_are_returned_unchanged_and_missing_ones_omitted(
    kind: Callable[..., Cache], redis_client: Redis
) -> None:
    cache = kind(redis_client) if kind is RedisCache else kind()
    cache.put_many({}, ttl_s=60)
    assert cache.get_many([]) == cache.get_many(["never stored"]) == {}
    values = {"empty": b"", "all": bytes(range(256)), "ключ: 鍵 {key}\n": b"x" * 100_000}
    cache.put_many(dict.fromkeys(values, b"before"), ttl_s=60)
    cache.put_many(values, ttl_s=60)
    cache.put_many({"gone": b"1"}, ttl_s=0)
    assert cache.get_many([*values, "c", "gone", "all"]) == (values if kind is RedisCache else {})


def test_every_key_has_our_prefix_and_a_ttl_and_expired_ones_are_omitted(redis_client: Redis) -> None:
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
    cache = RedisCache(own_redis_server.client(socket_timeout=0.5, retry=None))
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
