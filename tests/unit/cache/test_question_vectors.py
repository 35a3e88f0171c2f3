from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import redis

from cache.memory import MemoryCache
from cache.null import NullCache
from cache.protocol import CacheUnavailable
from cache.question_vectors import CachedQuestions
from cache.redis import RedisCache
from models.documents import Matrix


class Letters:
    """An embedder whose vectors count the letters a, b and c, and which remembers what it was asked."""

    dimension = 3

    def __init__(self, fingerprint: str = "letters") -> None:
        self.fingerprint = fingerprint
        self.asked: list[list[str]] = []

    def embed_questions(self, texts: Sequence[str]) -> Matrix:
        self.asked.append(list(texts))
        return np.array([[text.count(letter) for letter in "abc"] for text in texts], np.float32)


class Down:
    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        raise CacheUnavailable("down")

    def put_many(self, values: Mapping[str, bytes], *, ttl_s: float) -> None:
        raise CacheUnavailable("down")


def test_only_missing_questions_are_embedded_in_one_call() -> None:
    embedder = Letters()
    cached = CachedQuestions(embedder)
    cached.embed_questions(["aa", "b"])
    vectors = cached.embed_questions(["b", "abc", "aa", "cc", "abc"])
    assert vectors.tolist() == [[0, 1, 0], [1, 1, 1], [2, 0, 0], [0, 0, 2], [1, 1, 1]]
    assert embedder.asked == [["aa", "b"], ["abc", "cc"]]


def test_no_questions_give_no_vectors() -> None:
    embedder = Letters()
    assert CachedQuestions(embedder).embed_questions([]).shape == (0, 3)
    assert embedder.asked == []


def test_vectors_of_two_models_never_mix() -> None:
    shared = MemoryCache(max_entries=10)
    other = Letters("other weights")
    CachedQuestions(Letters(), caches=[shared]).embed_questions(["a"])
    CachedQuestions(other, caches=[shared]).embed_questions(["a"])
    assert other.asked == [["a"]]


def test_the_vectors_are_writable_and_changing_them_changes_nothing_stored() -> None:
    cached = CachedQuestions(Letters())
    cached.embed_questions(["a"])[:] = 9
    assert cached.embed_questions(["a"]).tolist() == [[1, 0, 0]]
    assert cached.embed_questions(["a"]).dtype == np.float32


def test_a_value_from_the_shared_cache_is_copied_to_the_nearer_one(redis_client: redis.Redis) -> None:
    near, embedder = MemoryCache(max_entries=10), Letters()
    CachedQuestions(Letters(), caches=[RedisCache(redis_client)]).embed_questions(["a"])
    cached = CachedQuestions(embedder, caches=[near, RedisCache(redis_client)])
    assert cached.embed_questions(["a"]).tolist() == [[1, 0, 0]]
    assert embedder.asked == []
    redis_client.flushall()
    assert cached.embed_questions(["a"]).tolist() == [[1, 0, 0]]
    assert embedder.asked == []


def test_a_cache_that_is_down_is_skipped() -> None:
    embedder = Letters()
    cached = CachedQuestions(embedder, caches=[Down(), MemoryCache(max_entries=10), Down()])
    for _ in range(2):
        assert cached.embed_questions(["abc"]).tolist() == [[1, 1, 1]]
    assert embedder.asked == [["abc"]]


def test_a_stored_value_of_a_wrong_length_is_embedded_again() -> None:
    store, embedder = MemoryCache(max_entries=10), Letters()
    cached = CachedQuestions(embedder, caches=[store])
    cached.embed_questions(["a"])
    (key,) = store._entries
    store.put_many({key: b"short"}, ttl_s=60)
    assert cached.embed_questions(["a"]).tolist() == [[1, 0, 0]]
    assert embedder.asked == [["a"], ["a"]]


def test_without_a_storing_cache_every_question_is_embedded() -> None:
    embedder = Letters()
    cached = CachedQuestions(embedder, caches=[NullCache()])
    cached.embed_questions(["a"])
    cached.embed_questions(["a"])
    assert embedder.asked == [["a"], ["a"]]


def test_an_embedder_s_error_is_raised_and_nothing_is_stored() -> None:
    class Broken(Letters):
        def embed_questions(self, texts: Sequence[str]) -> Matrix:
            raise RuntimeError("no model")

    store = MemoryCache(max_entries=10)
    with pytest.raises(RuntimeError, match="no model"):
        CachedQuestions(Broken(), caches=[store]).embed_questions(["a"])
    assert len(store) == 0


def test_a_lone_surrogate_is_a_text_like_any_other() -> None:
    embedder = Letters()
    cached = CachedQuestions(embedder)
    assert cached.embed_questions(["a\ud800"]).tolist() == [[1, 0, 0]]
