"""A cache of question vectors in this process."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from cache.caches import MemoryCache
from models.documents import Matrix

MAX_ENTRIES = 10_000
"""15 MB with vectors of 384 numbers."""
TTL_S = 86_400.0


class QuestionEmbedder(Protocol):
    """The cached part of an embedder."""

    @property
    def dimension(self) -> int: ...

    def embed_questions(self, texts: Sequence[str]) -> Matrix: ...


class CachedQuestions:
    """Caches an embedder's `embed_questions` by text."""

    def __init__(self, embedder: QuestionEmbedder) -> None:
        self._embedder = embedder
        self._cache = MemoryCache(max_entries=MAX_ENTRIES)

    def embed_questions(self, texts: Sequence[str]) -> Matrix:
        """Shape (len(texts), dimension); embeds all distinct missing texts in one call."""
        keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for text in texts]
        known = self._cache.get_many(list(dict.fromkeys(keys)))
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            vectors = self._embedder.embed_questions(list(missing.values()))
            fresh = {key: vector.tobytes() for key, vector in zip(missing, vectors, strict=True)}
            self._cache.put_many(fresh, ttl_s=TTL_S)
            known.update(fresh)
        rows = np.frombuffer(b"".join(known[key] for key in keys), np.float32)
        return rows.reshape(len(texts), self._embedder.dimension).copy()
