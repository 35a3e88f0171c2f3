"""A cache of question vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from cache.memory import MemoryCache
from cache.protocol import Cache
from cache.tiers import Tiers
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

    `caches`: the nearest first; by default only this process's memory.
    """

    def __init__(
        self, embedder: QuestionEmbedder, *, caches: Sequence[Cache] | None = None, ttl_s: float = TTL_S
    ) -> None:
        self._embedder = embedder
        self._caches = Tiers(
            (MemoryCache(max_entries=MAX_ENTRIES),) if caches is None else caches, ttl_s=ttl_s
        )

    def embed_questions(self, texts: Sequence[str]) -> Matrix:
        """Shape (len(texts), dimension); embeds all distinct missing texts in one call."""
        keys = [self._key(text) for text in texts]
        known = self._caches.get_many(list(dict.fromkeys(keys)), self._read)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            vectors = self._embedder.embed_questions(list(missing.values()))
            fresh = {
                key: vector.astype("<f4").tobytes() for key, vector in zip(missing, vectors, strict=True)
            }
            self._caches.put_many(fresh)
            known.update(fresh)
        rows = np.frombuffer(b"".join(known[key] for key in keys), "<f4")
        return rows.reshape(len(texts), self._embedder.dimension).astype(np.float32)

    def _key(self, text: str) -> str:
        hashed = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return f"vector:{self._embedder.fingerprint}:{hashed}"

    def _read(self, value: bytes) -> bytes | None:
        return value if len(value) == 4 * self._embedder.dimension else None
