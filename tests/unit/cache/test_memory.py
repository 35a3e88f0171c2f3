from __future__ import annotations

import pytest

from cache.caches import MemoryCache, NullCache
from tests.contracts.cache import CacheContract


class TestMemoryCache(CacheContract):
    @pytest.fixture
    def cache(self) -> MemoryCache:
        return MemoryCache(max_entries=1_000)


def test_each_value_expires_at_its_own_time() -> None:
    now_s = [100.0]
    cache = MemoryCache(max_entries=10, clock=lambda: now_s[0])
    cache.put_many({"short": b"1"}, ttl_s=2)
    cache.put_many({"long": b"2"}, ttl_s=3)
    now_s[0] += 1.9
    assert cache.get_many(["short", "long"]) == {"short": b"1", "long": b"2"}
    now_s[0] += 0.1
    assert cache.get_many(["short", "long"]) == {"long": b"2"}
    assert len(cache) == 1


def test_the_least_recently_used_goes_first() -> None:
    cache = MemoryCache(max_entries=3)
    cache.put_many({"a": b"1", "b": b"2", "c": b"3"}, ttl_s=60)
    cache.get_many(["a"])
    cache.put_many({"b": b"again"}, ttl_s=60)
    cache.put_many({"d": b"4"}, ttl_s=60)
    assert cache.get_many(["a", "b", "c", "d"]) == {"a": b"1", "b": b"again", "d": b"4"}
    cache.put_many({str(number): b"x" for number in range(5)}, ttl_s=60)
    assert cache.get_many([*"01234abd"]) == {"2": b"x", "3": b"x", "4": b"x"}
    with pytest.raises(ValueError, match="NullCache"):
        MemoryCache(max_entries=0)


def test_the_null_cache_accepts_everything_and_stores_nothing() -> None:
    cache = NullCache()
    cache.put_many({"a": b"1"}, ttl_s=60)
    assert cache.get_many(["a", "b"]) == {}
