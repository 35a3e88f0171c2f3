from __future__ import annotations

import pytest

from cache.memory import MemoryCache
from tests.contracts.cache import CacheContract


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class TestMemoryCache(CacheContract):
    @pytest.fixture
    def cache(self) -> MemoryCache:
        return MemoryCache(max_entries=1_000)


def test_each_value_expires_at_its_own_time() -> None:
    clock = Clock()
    cache = MemoryCache(max_entries=10, clock=clock)
    cache.put_many({"short": b"1"}, ttl_s=2)
    cache.put_many({"long": b"2"}, ttl_s=3)
    clock.now_s += 1.9
    assert cache.get_many(["short", "long"]) == {"short": b"1", "long": b"2"}
    clock.now_s += 0.1
    assert cache.get_many(["short", "long"]) == {"long": b"2"}
    assert len(cache) == 1


def test_the_least_recently_used_goes_first() -> None:
    cache = MemoryCache(max_entries=3)
    cache.put_many({"a": b"1", "b": b"2", "c": b"3"}, ttl_s=60)
    cache.get_many(["a"])
    cache.put_many({"d": b"4"}, ttl_s=60)
    assert cache.get_many(["a", "b", "c", "d"]) == {"a": b"1", "c": b"3", "d": b"4"}


def test_storing_a_value_again_counts_as_use() -> None:
    cache = MemoryCache(max_entries=2)
    cache.put_many({"a": b"1", "b": b"2"}, ttl_s=60)
    cache.put_many({"a": b"again"}, ttl_s=60)
    cache.put_many({"c": b"3"}, ttl_s=60)
    assert cache.get_many(["a", "b", "c"]) == {"a": b"again", "c": b"3"}


def test_if_too_many_values_come_at_once_the_last_ones_stay() -> None:
    cache = MemoryCache(max_entries=2)
    cache.put_many({str(number): b"x" for number in range(5)}, ttl_s=60)
    assert len(cache) == 2
    assert cache.get_many(list("01234")) == {"3": b"x", "4": b"x"}


def test_a_cache_of_no_entries_is_refused() -> None:
    with pytest.raises(ValueError, match="NullCache"):
        MemoryCache(max_entries=0)
