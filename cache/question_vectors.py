"""A cache of question vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

import numpy as np

from cache.memory import MemoryCache
from cache.protocol import Cache, CacheUnavailable
from models.documents import Matrix

MAX_ENTRIES = 10_000
"""15 MB with vectors of 384 numbers."""
TTL_S = 86_400.0


class QuestionEmbedder(Protocol):
    """The cached part of an embedder."""

    @property
    def fingerprint(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def embed_questions(self, texts: Sequence[str]) -> Matrix: ...


class CachedQuestions:
    """Caches an embedder's `embed_questions` by fingerprint and text.

    `caches` are asked in order, the nearest first (by default only this process's memory).  Values from a later cache are
    copied to the earlier ones.  A cache that is down is skipped.
    """

    def __init__(
        self, embedder: QuestionEmbedder, *, caches: Sequence[Cache] | None = None, ttl_s: float = TTL_S
    ) -> None:
        self._embedder = embedder
        self._caches = (MemoryCache(max_entries=MAX_ENTRIES),) if caches is None else tuple(caches)
        self._ttl_s = ttl_s

    def embed_questions(self, texts: Sequence[str]) -> Matrix:
        """Shape (len(texts), dimension); embeds all distinct missing texts in one call."""
        keys = [self._key(text) for text in texts]
        known = self._look_up(list(dict.fromkeys(keys)))
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            vectors = self._embedder.embed_questions(list(missing.values()))
            fresh = {
                key: vector.astype("<f4").tobytes() for key, vector in zip(missing, vectors, strict=True)
            }
            self._store(fresh, self._caches)
            known.update(fresh)
        rows = np.frombuffer(b"".join(known[key] for key in keys), "<f4")
        return rows.reshape(len(texts), self._embedder.dimension).astype(np.float32)

    def _key(self, text: str) -> str:
        hashed = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return f"vector:{self._embedder.fingerprint}:{hashed}"

    def _look_up(self, keys: list[str]) -> dict[str, bytes]:
        known: dict[str, bytes] = {}
        for at, cache in enumerate(self._caches):
            if not (wanted := [key for key in keys if key not in known]):
                break
            with suppress(CacheUnavailable):
                found = cache.get_many(wanted)
                # Ignore values that are not whole vectors.
                whole = {
                    key: value for key, value in found.items() if len(value) == 4 * self._embedder.dimension
                }
                self._store(whole, self._caches[:at])
                known.update(whole)
        return known

    def _store(self, values: dict[str, bytes], caches: Sequence[Cache]) -> None:
        for cache in caches:
            with suppress(CacheUnavailable):
                cache.put_many(values, ttl_s=self._ttl_s)
