"""A small deterministic embedder: a passage is the sum of its words' directions.  No weights, no files."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import blake2b
from math import inf

import numpy as np

from models.documents import Matrix


class HashingEmbedder:
    """Counts words and signs as pieces, and counts the texts that it embeds."""

    fingerprint = "hashing/1"
    comparable = ("hashing/1",)
    knows_words = True

    def __init__(self, *, dimension: int = 16, max_pieces: int = 32) -> None:
        self.dimension = dimension
        self.max_pieces = max_pieces
        self.embedded: list[str] = []

    def embed_questions(self, texts: Sequence[str], *, timeout_s: float = inf) -> Matrix:
        return np.array([self._direction(text) for text in texts], np.float32).reshape(-1, self.dimension)

    def embed_passages(
        self,
        texts: Sequence[str],
        *,
        progress: Callable[[int], None] | None = None,
        timeout_s: float = inf,
    ) -> Matrix:
        self.embedded += texts
        if progress is not None and texts:
            progress(len(texts))
        return self.embed_questions(texts)

    def count_pieces(self, text: str) -> int:
        return len(re.findall(r"\w+|[^\w\s]", text))

    def warm(self) -> None:
        pass

    def _direction(self, text: str) -> Matrix:
        vector = np.full(self.dimension, 1e-3, np.float32)
        for word in text.casefold().split():
            raw = blake2b(word.encode(), digest_size=min(self.dimension, 64)).digest()
            direction = np.resize(np.frombuffer(raw, np.uint8), self.dimension)
            vector += direction / np.float32(255) - np.float32(0.5)
        return np.asarray(vector / np.linalg.norm(vector), np.float32)
