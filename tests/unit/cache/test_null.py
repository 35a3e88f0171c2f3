from __future__ import annotations

from cache.null import NullCache


def test_the_null_cache_accepts_everything_and_stores_nothing() -> None:
    cache = NullCache()
    cache.put_many({"a": b"1"}, ttl_s=60)
    assert cache.get_many(["a", "b"]) == {}
