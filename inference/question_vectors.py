"""A cache of question vectors in this process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from math import inf
from typing import Protocol

import numpy as np

from models.documents import Matrix, Vector

MAX_ENTRIES = 10_000
"""15 MB with vectors of 384 numbers."""


class QuestionEmbedder(Protocol):
    """The cached part of an embedder."""

    @property
    def dimension(self) -> int: ...

    def embed_questions(self, texts: Sequence[str], *, timeout_s: float) -> Matrix: ...


class CachedQuestions:
    """Caches an embedder's `embed_questions` by text.  Thread-safe; the least recently used vector goes first."""

    def __init__(self, embedder: QuestionEmbedder) -> None:
        self._embedder = embedder
        self._vectors: OrderedDict[str, Vector] = OrderedDict()
        self._lock = threading.Lock()

    def embed_questions(
        self,
        texts: Sequence[str],
        *,
        timeout_s: float = inf,
        ask: Callable[[Callable[[], Matrix]], Matrix] = lambda call: call(),
    ) -> Matrix:
        """Shape (len(texts), dimension); embeds all distinct missing texts in one call, with that time limit.

        `ask` makes that call, or raises.
        """
        with self._lock:
            vectors = {text: self._vectors[text] for text in texts if text in self._vectors}
        if missing := [text for text in dict.fromkeys(texts) if text not in vectors]:
            embedded = ask(lambda: self._embedder.embed_questions(missing, timeout_s=timeout_s))
            vectors |= zip(missing, embedded.copy(), strict=True)
        with self._lock:
            for text, vector in vectors.items():
                self._vectors[text] = vector
                self._vectors.move_to_end(text)
            while len(self._vectors) > MAX_ENTRIES:
                self._vectors.popitem(last=False)
        return np.array([vectors[text] for text in texts], np.float32).reshape(
            len(texts), self._embedder.dimension
        )
