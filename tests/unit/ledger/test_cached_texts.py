"""Texts of a language model are cached by question, model and prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from redis import Redis

from ledger.caches import Cache, CachedTexts, CacheUnavailable, RedisCache
from models.declarations.extensions import GenerationResult, PartialGeneration
from models.errors import StoreTimeout


class Gone:
    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        raise CacheUnavailable("away")

    def put_many(self, values: Mapping[str, bytes], *, ttl_s: float) -> None:
        raise CacheUnavailable("away")


def writes_two(texts: Sequence[str], *, timeout_s: float) -> list[GenerationResult]:
    """Two documents for each question, one for `half` and `some`, none for `bad`."""
    late = StoreTimeout("late")
    made: dict[str, GenerationResult] = {
        "bad": late,
        "half": ("one",),
        "some": PartialGeneration(("one",), late),
    }
    return [made.get(text, (text, text.upper())) for text in texts]


def cached(cache: Cache, fingerprint: str = "f") -> CachedTexts:
    return CachedTexts(
        writes_two, fingerprint=fingerprint, cache=cache, is_whole=lambda texts: len(texts) == 2
    )


@pytest.fixture
def memory(redis_client: Redis) -> RedisCache:
    return RedisCache(redis_client)


def test_texts_are_found_whatever_the_spacing_for_one_owner_model_and_prompt_unless_it_is_forbidden(
    memory: RedisCache,
) -> None:
    texts = cached(memory)
    assert texts.write(["tea"], timeout_s=1, owner="acme", keep=False) == [("tea", "TEA")]
    assert texts.known(["tea"], "acme") == {}
    texts.write(["tea"], timeout_s=1, owner="acme")
    assert texts.known([" tea\n"], "acme") == {" tea\n": ("tea", "TEA")}
    assert texts.known(["tea"], "zenith") == texts.known(["tea"]) == {}
    assert cached(memory, fingerprint="another").known(["tea"], "acme") == {}


def test_a_cache_that_is_down_is_skipped() -> None:
    texts = cached(Gone())
    assert texts.write(["tea"], timeout_s=1) == [("tea", "TEA")]
    assert texts.known(["tea"]) == {}


def test_failures_and_partial_results_are_not_cached(memory: RedisCache) -> None:
    texts = cached(memory)
    written = texts.write(["bad", "half", "some"], timeout_s=1)
    assert [type(one) for one in written] == [StoreTimeout, tuple, PartialGeneration]
    assert texts.known(["bad", "half", "some"]) == {}


@pytest.mark.parametrize("value", [b"no JSON", b'"text"', b"[1, 2]", b'["one"]'])
def test_a_malformed_cached_value_counts_as_missing(
    redis_client: Redis, memory: RedisCache, value: bytes
) -> None:
    texts = cached(memory)
    texts.write(["tea"], timeout_s=1)
    (key,) = redis_client.keys()
    redis_client.set(key, value)
    assert texts.known(["tea"]) == {}
