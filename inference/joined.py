"""Several encoders as one: a text's vector is the vectors of all, one after the other.

Each part has the length 1/√n for n encoders, so that the whole has the length 1.  A question of one encoder has zeros in the other
parts: its cosine with a passage is then that of this encoder, divided by √n.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, sqrt
from typing import Any

import numpy as np

from inference.protocol import Embedder
from models.documents import Matrix


class JoinedEmbedder:
    """For passages; implements `inference.protocol.Embedder`.  Texts are measured by the first encoder, and are short enough for
    each."""

    def __init__(self, embedders: Mapping[str, Embedder]) -> None:
        """By the names of the encoders, at least two."""
        self._embedders = list(embedders.values())
        first = self._embedders[0]
        self.fingerprint = " + ".join(embedder.fingerprint for embedder in self._embedders)
        self.comparable = (self.fingerprint,)
        self.max_pieces = min(embedder.max_pieces for embedder in self._embedders)
        self.knows_words, self.count_pieces = first.knows_words, first.count_pieces
        self.dimension = 0
        self.parts: dict[str, dict[str, Any]] = {}
        """As in `models.documents.Manifest`."""
        for name, embedder in embedders.items():
            end = self.dimension + embedder.dimension
            self.parts[name] = {"embedder": embedder.fingerprint, "start": self.dimension, "end": end}
            self.dimension = end

    def embed_questions(self, texts: Sequence[str], *, timeout_s: float = inf) -> Matrix:
        return self._joined([each.embed_questions(texts, timeout_s=timeout_s) for each in self._embedders])

    def embed_passages(
        self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None, timeout_s: float = inf
    ) -> Matrix:
        *others, last = self._embedders
        vectors = [each.embed_passages(texts, timeout_s=timeout_s) for each in others]
        return self._joined([*vectors, last.embed_passages(texts, progress=progress, timeout_s=timeout_s)])

    def warm(self) -> None:
        for embedder in self._embedders:
            embedder.warm()

    def _joined(self, vectors: Sequence[Matrix]) -> Matrix:
        return np.concatenate(vectors, axis=1) / np.float32(sqrt(len(vectors)))
