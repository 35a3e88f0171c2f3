"""What every cache promises.  A subclass with a `cache` fixture is tested."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from cache.caches import Cache


class CacheContract:
    """The promises of caches that store values."""

    def test_stored_keys_are_found_once_and_missing_ones_left_out(self, cache: Cache) -> None:
        cache.put_many({}, ttl_s=60)
        assert cache.get_many([]) == cache.get_many(["never stored"]) == {}
        cache.put_many({"a": b"1", "b": b"2"}, ttl_s=60)
        assert cache.get_many(["b", "c", "a", "a"]) == {"a": b"1", "b": b"2"}

    def test_a_new_value_replaces_the_old_one(self, cache: Cache) -> None:
        cache.put_many({"key": b"first"}, ttl_s=60)
        cache.put_many({"key": b"second"}, ttl_s=60)
        assert cache.get_many(["key"]) == {"key": b"second"}

    def test_any_bytes_under_any_key_are_returned_unchanged(self, cache: Cache) -> None:
        values = {
            "empty": b"",
            "zeros": b"\0\0",
            "all": bytes(range(256)),
            "ключ: 鍵 {key}\n": b"x" * 100_000,
        }
        cache.put_many(values, ttl_s=60)
        assert cache.get_many(list(values)) == values

    def test_a_value_with_a_ttl_of_0_is_not_stored(self, cache: Cache) -> None:
        cache.put_many({"gone": b"1"}, ttl_s=0)
        assert cache.get_many(["gone"]) == {}

    def test_threads_may_share_one_instance(self, cache: Cache) -> None:
        def put_and_get(number: int) -> bool:
            mine = {f"{number}:{at}": f"{number}".encode() for at in range(20)}
            cache.put_many(mine, ttl_s=60)
            return cache.get_many(list(mine)) == mine

        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(put_and_get, range(40)))
